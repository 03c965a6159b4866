static double value(char kind, const void *at) {
  axla_float_bits number;
  axla_f16 half;
  axla_bf16 brain;
  double large;
  number.bits = 0;
  switch (kind) {
    case 'f': memcpy(&number, at, sizeof number); break;
    case 'h': memcpy(&half, at, sizeof half); number.value = axla_f16_to_float(half); break;
    case 'b': memcpy(&brain, at, sizeof brain); number.value = axla_bf16_to_float(brain); break;
    case 'd': memcpy(&large, at, sizeof large); return large;
    FILL_TABLES
    default: break;
  }
  return (double)number.value;
}

/* 0 when an array is as recorded: its bits, or NaN for NaN, or a number within the tolerance. Kind 0 has no
 * tolerance. */
static int check(const char *name, char kind, const void *found, size_t width, size_t count, double relative,
                 double absolute) {
  const unsigned char *at = (const unsigned char *)found;
  unsigned char wanted[16];
  size_t i, wrong = 0, first = 0;
  for (i = 0; i < count; ++i, at += width) {
    get(wanted, width);
    if (!memcmp(at, wanted, width)) continue;
    if (kind != '0') {
      const double a = value(kind, at), b = value(kind, wanted);
      const double gap = a > b ? a - b : b - a, size = b < 0 ? -b : b;
      if (a != a && b != b) continue;
      if ((relative > 0 || absolute > 0) && gap <= absolute + relative * size) continue;
    }
    if (!wrong++) first = i;
  }
  if (!wrong) return 0;
  (void)name; /* which only a report needs */
  (void)first;
  AXLA_TEST_PRINT("%s: %lu of %lu numbers differ, the first at %lu\n", name, (unsigned long)wrong,
                  (unsigned long)count, (unsigned long)first);
  return 1;
}
