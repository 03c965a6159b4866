/* Memory for the self-tests of packages that is as bad as the header allows (AXLA_TEST_MEMORY names this file).
 *
 * Each array has the least alignment that is promised and known bytes on both sides; results and workspace are
 * full of garbage that changes from run to run. A test makes its call several times: through S_run, and through
 * S_run_frame with ranges that run in another order. With a system, arguments are in pages that cannot be
 * written, arrays begin or end at pages that cannot be touched, and two threads share the arguments. Without,
 * arguments are compared with what they were, and closed by the machine's memory protection where STRICT_INPUTS
 * is the address of 16 MiB for them. All runs give the same bits. */
#ifdef AXLA_TEST_EMBEDDED
enum { ROOM = 2 * MEMORY + 65536 };
#else
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#endif
#include <stdarg.h>

enum { LEAST, AT_BEGIN, AT_END }; /* where an array lies between its borders */
enum { BORDER = 64, BLOCKS = 2000 };

typedef struct block {
  unsigned char *at, *begin, *end; /* the array, and all of its memory: known bytes around it */
  size_t size, alignment;
  uint32_t was;         /* hash of an argument */
  unsigned char *saved; /* a variable, as it was */
  char kind;
} block;

static block blocks[BLOCKS];
static int taken;
static uint32_t noise = 2463534242u;
static const char *wrong;

static unsigned char garbage(void) {
  noise ^= noise << 13;
  noise ^= noise >> 17;
  noise ^= noise << 5;
  return (unsigned char)noise;
}

static void fill(block *b) {
  size_t i;
  for (i = 0; i < b->size; ++i) b->at[i] = garbage();
}

static uint32_t digest(uint32_t from, const unsigned char *at, size_t size) {
  for (; size; --size) from = (from ^ *at++) * 16777619u;
  return from;
}

#ifdef AXLA_TEST_EMBEDDED
static unsigned char memory[ROOM] __attribute__((aligned(64))), *next;

static unsigned char *room(size_t size) {
  unsigned char *here = next;
  next += (size + 63) / 64 * 64;
  if (next > memory + ROOM) wrong = "there is too little memory";
  return wrong ? memory : here;
}

#ifdef STRICT_INPUTS
/* 16 MiB of memory for the arguments, which the machine's protection closes. */
static unsigned char *inputs = (unsigned char *)STRICT_INPUTS;

#ifdef __arm__
#define REGISTER(at) (*(volatile uint32_t *)(at))

static void close_inputs(int closed) {
  REGISTER(0xE000ED94u) = 0; /* MPU_CTRL */
  if (!closed) return;
  REGISTER(0xE000ED98u) = 0; /* MPU_RNR */
#if __ARM_ARCH >= 8
  REGISTER(0xE000EDC0u) = 0x44u;                            /* MPU_MAIR0: normal memory */
  REGISTER(0xE000ED9Cu) = STRICT_INPUTS | 4u | 1u;          /* MPU_RBAR: only read, not executed */
  REGISTER(0xE000EDA0u) = (STRICT_INPUTS + 0xFFFFE0u) | 1u; /* MPU_RLAR */
#else
  REGISTER(0xE000ED9Cu) = STRICT_INPUTS;                                        /* MPU_RBAR */
  REGISTER(0xE000EDA0u) = 1u << 28 | 6u << 24 | 1u << 17 | 23u << 1 | 1u; /* MPU_RASR: only read, 2^24 bytes */
#endif
  REGISTER(0xE000ED94u) = 5;
  __asm__ volatile("dsb\n\tisb" ::: "memory");
}
#else /* RISC-V: locked until the next reset, so the arguments of the next function are elsewhere */
static void close_inputs(int closed) {
  static int again;
  if (!closed) return;
  if (again++) wrong = "only one function can be tested";
  __asm__ volatile("csrw pmpaddr0, %0\n\tcsrw pmpcfg0, %1" ::"r"(STRICT_INPUTS >> 2 | 0x1FFFFFu), "r"(0x99) : "memory");
}
#endif
#else
#define close_inputs(closed) (void)0
#endif

static void again(void) {
  close_inputs(0);
  next = memory;
  taken = 0;
}

static void protect(const block *b) { (void)b; }
#else
static const size_t PAGE = 65536; /* a multiple of every machine's */

static unsigned char *room(size_t size) {
  const size_t inner = (size + PAGE - 1) / PAGE * PAGE;
  unsigned char *all = (unsigned char *)mmap(NULL, inner + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == (unsigned char *)MAP_FAILED || mprotect(all + PAGE, inner, PROT_READ | PROT_WRITE)) exit(3);
  return all + PAGE;
}

static void again(void) { taken = 0; } /* the memory stays: that of a call is never given to another */

#define close_inputs(closed) (void)0

static void protect(const block *b) {
  if (mprotect(b->begin, (size_t)(b->end - b->begin), PROT_READ)) exit(3);
}
#endif

static int start(void) { return 1; }

/* An array of its own memory. */
static block place(char kind, size_t size, size_t alignment, int where) {
  block b;
  size_t i, around = size + 4 * BORDER;
#ifndef AXLA_TEST_EMBEDDED
  around = (around + PAGE - 1) / PAGE * PAGE;
#endif
  b.begin = NULL;
#ifdef STRICT_INPUTS
  if (kind == 'a') {
    b.begin = inputs;
    inputs += (around + 63) / 64 * 64;
  }
#endif
  if (!b.begin) b.begin = room(around);
  b.end = b.begin + around;
  b.at = b.begin + BORDER + alignment % 64;
  if (where == AT_BEGIN) b.at = b.begin;
  if (where == AT_END) b.at = b.end - (size + alignment - 1) / alignment * alignment;
  b.size = size;
  b.alignment = alignment;
  b.was = 0;
  b.saved = NULL;
  b.kind = kind;
  for (i = 0; i < around && !wrong; ++i) b.begin[i] = 0xC3;
  if (!wrong) fill(&b);
  return b;
}

static void *take(char kind, size_t size, size_t alignment) {
  block *b = &blocks[taken++];
  *b = place(kind, size, alignment, LEAST);
  if (kind == 'v') b->saved = room(size);
  return b->at;
}

/* Before the first run: what has to stay is kept and closed. */
static void strict_begin(void) {
  int k;
  for (k = 0; k < taken; ++k) {
    block *b = &blocks[k];
    if (b->kind == 'a') {
      b->was = digest(0, b->at, b->size);
      protect(b);
    } else if (b->kind == 'v') {
      memcpy(b->saved, b->at, b->size);
    } else {
      fill(b);
    }
  }
  close_inputs(1);
}

static void strict_intact(const block *b) {
  const unsigned char *at;
  for (at = b->begin; at < b->at; ++at) wrong = *at == 0xC3 ? wrong : "something was written before an array";
  for (at = b->at + b->size; at < b->end; ++at) wrong = *at == 0xC3 ? wrong : "something was written behind an array";
  if (b->kind == 'a' && b->was != digest(0, b->at, b->size)) wrong = "an argument was written";
}

/* The ranges of a kernel: the last one first, or every seventh and so on. */
static int32_t backwards(axla_frame *frame, axla_kernel *kernel, void *args, int64_t count, int64_t grain) {
  int64_t begin = (count - 1) / grain * grain;
  for (; begin >= 0; begin -= grain) {
    const int32_t code = kernel(frame, args, begin, begin + grain < count ? begin + grain : count);
    if (code) return code;
  }
  return 0;
}

static int32_t jumping(axla_frame *frame, axla_kernel *kernel, void *args, int64_t count, int64_t grain) {
  const int64_t ranges = (count + grain - 1) / grain;
  int64_t first, n;
  for (first = 0; first < 7; ++first) {
    for (n = first; n < ranges; n += 7) {
      const int64_t begin = n * grain;
      const int32_t code = kernel(frame, args, begin, begin + grain < count ? begin + grain : count);
      if (code) return code;
    }
  }
  return 0;
}

typedef struct attempt {
  int32_t (*run_frame)(axla_frame *);
  axla_parallel_for *parallel_for;
  block *table; /* like `blocks` */
  void **arguments, **results;
  const void *weights;
  int32_t code;
  uint32_t bits;
} attempt;

static uint32_t outputs(const block *table) {
  uint32_t bits = 2166136261u;
  int k;
  for (k = 0; k < taken; ++k) {
    if (table[k].kind == 'r' || table[k].kind == 'v') bits = digest(bits, table[k].at, table[k].size);
  }
  return bits;
}

static void *strict_attempt(void *given) {
  attempt *a = (attempt *)given;
  static const uint64_t seed[2] = AXLA_RNG_SEED;
  axla_frame frame = {0};
  int k;
  frame.version = AXLA_FRAME_VERSION;
  frame.arguments = a->arguments;
  frame.results = a->results;
  for (k = 0; k < taken; ++k) {
    if (a->table[k].kind == 'w') frame.workspace = a->table[k].at;
  }
  frame.parallel_for = a->parallel_for;
  frame.constants = a->weights;
  frame.rng_state[0] = seed[0];
  frame.rng_state[1] = seed[1];
  a->code = a->run_frame(&frame);
  a->bits = outputs(a->table);
  return NULL;
}

static void strict_report(uint32_t bits, const attempt *a, const char *what) {
  int k;
  for (k = 0; k < taken; ++k) strict_intact(&a->table[k]);
  if (a->code) wrong = "a run failed";
  if (a->bits != bits) wrong = what;
}

#ifndef AXLA_TEST_EMBEDDED
static block copies[3][BLOCKS];
static void *addresses[3][2][BLOCKS];

/* All arrays of a call in memory of their own; arguments are those of `shared` where it is given. */
static void strict_copy(attempt *a, int number, int where, size_t count, const block *shared) {
  size_t k;
  a->table = copies[number];
  for (k = 0; k < (size_t)taken; ++k) {
    const block *from = &blocks[k];
    block *to = &a->table[k];
    if (shared && from->kind == 'a') {
      *to = shared[k];
    } else {
      *to = place(from->kind, from->size, from->alignment, where);
      to->was = from->was;
      if (from->kind == 'v') memcpy(to->at, from->saved, to->size);
      if (from->kind == 'a') memcpy(to->at, from->at, to->size);
      if (from->kind == 'a') protect(to);
    }
    /* Arrays were taken in this order: arguments, results, the workspace. */
    if (k < count) addresses[number][0][k] = to->at;
    if (k >= count) addresses[number][1][k - count] = to->at;
  }
  a->arguments = addresses[number][0];
  a->results = addresses[number][1];
}
#endif

/* After the first run, which ended with `code`: the others. */
static int32_t strict_more(
    int32_t code, int32_t (*run_frame)(axla_frame *), void *arguments, void *results, size_t count, void *workspace,
    ...) {
  attempt a = {0};
  const uint32_t bits = outputs(blocks);
  int k;
  va_list rest;
  (void)workspace;
  va_start(rest, workspace);
  a.weights = va_arg(rest, const void *);
  va_end(rest);
  if (code) return code;
  a.run_frame = run_frame;
  a.parallel_for = backwards;
  a.table = blocks;
  a.bits = bits;
  strict_report(bits, &a, "");
#ifdef AXLA_TEST_EMBEDDED
  {
    axla_parallel_for *const orders[2] = {backwards, jumping};
    int turn;
    (void)count;
    a.arguments = (void **)arguments;
    a.results = (void **)results;
    for (turn = 0; turn < 2; ++turn) {
      for (k = 0; k < taken; ++k) {
        if (blocks[k].kind == 'v') memcpy(blocks[k].at, blocks[k].saved, blocks[k].size);
        if (blocks[k].kind == 'r' || blocks[k].kind == 'w') fill(&blocks[k]);
      }
      a.parallel_for = orders[turn];
      strict_attempt(&a);
      strict_report(bits, &a, "ranges in another order give other results");
    }
  }
#else
  {
    attempt two[2] = {a, a};
    pthread_t threads[2];
    (void)arguments;
    (void)results;
    strict_copy(&a, 0, AT_END, count, NULL);
    strict_attempt(&a);
    strict_report(bits, &a, "ranges in another order give other results");
    strict_copy(&two[0], 1, AT_BEGIN, count, NULL);
    strict_copy(&two[1], 2, AT_END, count, two[0].table);
    two[1].parallel_for = jumping;
    for (k = 0; k < 2; ++k) pthread_create(&threads[k], NULL, strict_attempt, &two[k]);
    for (k = 0; k < 2; ++k) pthread_join(threads[k], NULL);
    for (k = 0; k < 2; ++k) strict_report(bits, &two[k], "runs at the same time give other results");
  }
#endif
  if (!wrong) return 0;
  AXLA_TEST_PRINT("%s\n", wrong);
  return AXLA_INTERNAL;
}

/* How many arrays a struct of pointers has: one without any has one that is NULL. */
#define STRICT_COUNT(values) \
  (*(void **)(void *)(values) ? sizeof *(values) / sizeof(void *) : (size_t)0)
#define AXLA_TEST_RUN(run, run_frame, args, results, ...)                                                   \
  (strict_begin(), strict_more(run(args, results, __VA_ARGS__), run_frame, args, results, STRICT_COUNT(args), \
                               __VA_ARGS__, NULL))
