/* Microseconds. */
static double now(void) {
#ifdef CLOCK_MONOTONIC
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
#else
  return (double)clock() * 1e6 / (double)CLOCKS_PER_SEC;
#endif
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* A sample is as many runs as take a millisecond. */
static int measure(const char *name, int32_t (*run)(void), const char *(*error)(int32_t), double seconds) {
  static double samples[1000];
  const size_t most = sizeof samples / sizeof samples[0];
  unsigned long batch = 1, runs = 0, i;
  double begin, taken = 0, total = 0;
  size_t count = 0;
  const int32_t code = run();
  if (code != AXLA_OK) {
    fprintf(stderr, "%s: %s\n", name, error(code));
    return 1;
  }
  for (;; batch *= 2) { /* which also warms up */
    begin = now();
    for (i = 0; i < batch; ++i) run();
    taken = now() - begin;
    if (taken >= 1000 || batch >= 1ul << 20) break;
  }
  if (taken <= 0) {
    printf("%s: %lu runs; the clock stands still\n", name, batch);
    return 0;
  }
  while (count < most && (count < 1 || total < seconds * 1e6)) {
    begin = now();
    for (i = 0; i < batch; ++i) run();
    taken = now() - begin;
    samples[count++] = taken / (double)batch;
    total += taken;
    runs += batch;
  }
  qsort(samples, count, sizeof samples[0], compare);
  printf("%s: min %.3f us, median %.3f us, mean %.3f us (%lu runs)\n", name, samples[0],
         samples[count / 2], total / (double)runs, runs);
  return 0;
}
