#define HEADER_SIZE FILL_HEADERSIZE
#define HEADER_DIGEST FILL_HEADERDIGEST
#define DATA_SIZE FILL_DATASIZE
#define DATA_DIGEST FILL_DATADIGEST
/* Of words whose lowest byte comes first, on every machine. */
static uint64_t axla_digest(const unsigned char *bytes, size_t size) {
  uint64_t sum = 0, word, i;
  for (i = 0; i < size / 8; ++i, bytes += 8) {
    word = (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 | (uint64_t)bytes[3] << 24 |
           (uint64_t)bytes[4] << 32 | (uint64_t)bytes[5] << 40 | (uint64_t)bytes[6] << 48 | (uint64_t)bytes[7] << 56;
    word += (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    word = (word ^ word >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    sum += word ^ word >> 32;
  }
  return sum;
}

int32_t FILL_PREFIX_weights_open(const char *path, FILL_PREFIX_weights *out) {
  int32_t code = axla_map(path, out);
  const unsigned char *bytes = (const unsigned char *)out->data;
  if (code == AXLA_OK && (out->size < HEADER_SIZE || axla_digest(bytes, HEADER_SIZE) != HEADER_DIGEST))
    code = AXLA_OTHER_FILE;
  if (code == AXLA_OK && out->size != HEADER_SIZE + DATA_SIZE) code = AXLA_DAMAGED_FILE;
#ifndef AXLA_TRUST_WEIGHTS /* reads all of the file: without, pages are read when they are used */
  if (code == AXLA_OK && axla_digest(bytes + HEADER_SIZE, DATA_SIZE) != DATA_DIGEST) code = AXLA_DAMAGED_FILE;
#endif
  if (code != AXLA_OK) FILL_PREFIX_weights_close(out);
  else out->data = bytes + HEADER_SIZE;
  return code;
}
