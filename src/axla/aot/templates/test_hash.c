static uint32_t hash(uint32_t from, const void *data, size_t size) {
  const unsigned char *at = (const unsigned char *)data;
  for (; size; --size) from = (from ^ *at++) * 16777619u;
  return from;
}
