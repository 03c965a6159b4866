static const unsigned char data[] = {
  FILL_DATA
};
static size_t data_at;

static void get(void *to, size_t size) {
  if (size) memcpy(to, data + data_at, size);
  data_at += size;
}
