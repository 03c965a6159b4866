#define MEMORY FILL_BYTES
#ifdef AXLA_TEST_MEMORY
#include AXLA_TEST_MEMORY /* has what follows, in another way */
#else
FILL_START

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

#define AXLA_TEST_RUN(run, run_frame, args, results, ...) run(args, results, __VA_ARGS__)
#endif
