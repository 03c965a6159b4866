"""The fixed parts of the generated C programs. `@P@` stands for the library's prefix, `@S@` for a symbol."""

from __future__ import annotations

ALIGNED = """\
/* The first multiple of 64 from an address on. */
static void *aligned(void *memory) { return (unsigned char *)memory + (64 - (uintptr_t)memory % 64) % 64; }
"""

ALLOCATE = """\
static void *allocate(size_t size) {
  void *memory = malloc(size + 64);
  if (!memory) {
    fprintf(stderr, "out of memory\\n");
    exit(1);
  }
  return aligned(memory);
}
"""

STATIC_ARENA = """\
static unsigned char memory[MEMORY + 64], *next;

static int start(void) { return 1; }
"""

HEAP_ARENA = f"""\
#ifdef AXLA_TEST_EMBEDDED
{STATIC_ARENA}#else
static unsigned char *memory, *next;

static int start(void) {{
  memory = (unsigned char *)malloc(MEMORY + 64);
  return memory != NULL;
}}
#endif
"""

TAKE = """
/* All of the memory is free again. */
static void again(void) { next = memory + (64 - (uintptr_t)memory % 64) % 64; }

/* Memory that is aligned to nothing more, full of garbage. Kinds: argument, variable, result, workspace. */
static void *take(char kind, size_t size, size_t alignment) {
  unsigned char *here = next + alignment % 64;
  size_t i;
  for (i = 0; i < size; ++i) here[i] = (unsigned char)kind;
  next += (size + 127) / 64 * 64;
  return here;
}
"""

ARENA = """\
#ifdef AXLA_TEST_MEMORY
#include AXLA_TEST_MEMORY /* has what follows, in another way */
#else
@ARENA@
#define AXLA_TEST_RUN(run, run_frame, args, results, ...) run(args, results, __VA_ARGS__)
#endif
"""

TEST_HEAD = """\
/* Calls each function with recorded arguments and compares the results. The status is 0 when all agree.
 *
 * AXLA_TEST_EMBEDDED: for machines without a system, that have memcpy and memcmp only. AXLA_TEST_PRINT: what
 * to report with, like printf.
 */
#include <stddef.h>
#include <stdint.h>
#ifdef AXLA_TEST_EMBEDDED
void *memcpy(void *to, const void *from, size_t size);
int memcmp(const void *left, const void *right, size_t size);
#ifndef AXLA_TEST_PRINT
#define AXLA_TEST_PRINT say_nothing
static void say_nothing(const char *format, ...) { (void)format; }
#endif
#else
#include <stdlib.h>
#include <string.h>
#ifndef AXLA_TEST_PRINT
#include <stdio.h>
#define AXLA_TEST_PRINT printf
#endif
#endif
"""

REFUSE_EMBEDDED = """\
#ifdef AXLA_TEST_EMBEDDED
#error "this test reads files"
#endif
#include <stdio.h>
"""

DATA_HERE = """\
static const unsigned char data[] = {
@DATA@
};
static size_t data_at;

static void get(void *to, size_t size) {
  if (size) memcpy(to, data + data_at, size);
  data_at += size;
}
"""

DATA_FILE = """\
static FILE *data;

/* The first argument of the program, else @P@_test.bin beside it, else in the current folder. */
static int open_data(int argc, char **argv) {
  static const char name[] = "@P@_test.bin";
  char path[1024];
  size_t length = argc > 0 ? strlen(argv[0]) : 0;
  while (length && argv[0][length - 1] != '/' && argv[0][length - 1] != '\\\\') --length;
  if (argc > 1) {
    data = fopen(argv[1], "rb");
  } else if (length + sizeof name <= sizeof path) {
    memcpy(path, argv[0], length);
    memcpy(path + length, name, sizeof name);
    data = fopen(path, "rb");
  }
  if (!data && argc < 2) data = fopen(name, "rb");
  if (!data) AXLA_TEST_PRINT("%s: cannot be opened\\n", argc > 1 ? argv[1] : name);
  return data != NULL;
}

static void get(void *to, size_t size) {
  if (fread(to, 1, size, data) == size) return;
  AXLA_TEST_PRINT("the file of recorded data is too short\\n");
  exit(2);
}
"""

FAILED = """\
  if (code != AXLA_OK) {
    AXLA_TEST_PRINT("@S@: %s\\n", @S@_error(code));
    return 1;
  }"""

CHECK = """\
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
@TABLES@    default: break;
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
  AXLA_TEST_PRINT("%s: %lu of %lu numbers differ, the first at %lu\\n", name, (unsigned long)wrong,
                  (unsigned long)count, (unsigned long)first);
  return 1;
}
"""

HASH = """\
static uint32_t hash(uint32_t from, const void *data, size_t size) {
  const unsigned char *at = (const unsigned char *)data;
  for (; size; --size) from = (from ^ *at++) * 16777619u;
  return from;
}
"""

BENCHMARK_HEAD = """\
/* Measures how long a run takes, for about a second or the number of seconds that is the argument. */
#if defined(__unix__) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 199309L
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
"""

MEASURE = """\
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
    fprintf(stderr, "%s: %s\\n", name, error(code));
    return 1;
  }
  for (;; batch *= 2) { /* which also warms up */
    begin = now();
    for (i = 0; i < batch; ++i) run();
    taken = now() - begin;
    if (taken >= 1000 || batch >= 1ul << 20) break;
  }
  if (taken <= 0) {
    printf("%s: %lu runs; the clock stands still\\n", name, batch);
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
  printf("%s: min %.3f us, median %.3f us, mean %.3f us (%lu runs)\\n", name, samples[0],
         samples[count / 2], total / (double)runs, runs);
  return 0;
}
"""

WEIGHTS = """\
#include "@P@_loader.h"

static @P@_weights side_file;
static const void *weights;

/* The constants, from @P@.weights in the current folder. */
static int load_weights(void) {
  const int32_t code = @P@_weights_open("@P@.weights", &side_file);
  if (code != AXLA_OK) printf("@P@.weights cannot be used: code %ld\\n", (long)code);
  weights = side_file.data;
  return code == AXLA_OK;
}
"""
