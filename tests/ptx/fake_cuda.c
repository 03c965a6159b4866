/* What the driver of tests takes for libcuda: a queue whose work is done when somebody waits or asks, contexts
   that threads make their own, errors on demand. Memory, modules and launches are callbacks. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 2, NO_DEVICE = 100, NO_CONTEXT = 201, BAD_PTX = 218, NOT_FOUND = 500, NOT_READY = 600,
       LAUNCH_FAILED = 719 };
enum { MOST_AHEAD = 64 }; /* launches in the queue: one more waits, as CUDA has it */
enum { MOVE, FILL, LAUNCH, EVENT, FREE, UNLOAD };

typedef struct Work {
    struct Work *next;
    int kind;
    uint64_t target, source, count, value;
    uint32_t width, blocks, threads;
    char data[];
} Work;

uint64_t fake_base, fake_size; /* the device's memory */
uint64_t (*fake_allocate)(uint64_t size);
void (*fake_free)(uint64_t address);
uint64_t (*fake_load)(const char *text, char *log, uint64_t room);
void (*fake_unload)(uint64_t module);
uint64_t (*fake_find)(uint64_t module, const char *name);
int (*fake_launch)(uint64_t kernel, uint32_t blocks, uint32_t threads, const void *data, uint64_t size);
int fake_devices = 1, fake_major = 9, fake_minor = 0;
int64_t fake_calls, fake_fail_at = -1, fake_live; /* fake_live: memory, events and modules together */
int fake_code, fake_lost;

static Work *first, *last;
static volatile int ahead; /* launches in the queue */
static int broken, now, acting; /* acting: a launch, in whose callback Python may collect garbage */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static __thread void *current;

static void act(Work *work);

void fake_reset(void) {
    while (first) {
        Work *gone = first;
        first = gone->next;
        if (gone->kind >= EVENT) act(gone);
        free(gone);
    }
    last = 0;
    ahead = 0;
    broken = fake_lost = fake_code = 0;
    fake_calls = 0;
    fake_fail_at = -1;
}

/* What every function begins with. */
static int begin(int anywhere) {
    if (fake_calls++ == fake_fail_at) {
        if (fake_lost) broken = fake_code;
        return fake_code;
    }
    if (broken) return broken;
    return anywhere || current ? 0 : NO_CONTEXT;
}

#define BEGIN(anywhere) { int code = begin(anywhere); if (code) return code; }

static Work *put(int kind, size_t room) {
    Work *work = calloc(1, sizeof(Work) + room);
    work->kind = kind;
    pthread_mutex_lock(&lock);
    if (last && first) last->next = work; else first = work;
    last = work;
    ahead += kind == LAUNCH;
    return work; /* locked */
}

static int done(void) { pthread_mutex_unlock(&lock); return 0; }

static void act(Work *work) {
    void *target = (void *)work->target;
    switch (work->kind) {
    case MOVE: memcpy(target, work->source ? (void *)work->source : work->data, work->count); break;
    case FILL:
        for (uint64_t n = 0; n < work->count; n++) memcpy((char *)target + n * work->width, &work->value, work->width);
        break;
    case LAUNCH:
        acting++;
        if (fake_launch(work->target, work->blocks, work->threads, work->data, work->count)) broken = LAUNCH_FAILED;
        acting--;
        break;
    case EVENT:
        ((int *)target)[0]--;
        ((int *)target)[1] = ++now;
        if (((int *)target)[2]) free(target);
        break;
    case FREE: fake_free(work->target); break;
    case UNLOAD: fake_unload(work->target); break;
    }
}

/* Does the first thing in the queue; whether there was one. */
static int step(void) {
    pthread_mutex_lock(&lock);
    Work *work = acting ? 0 : first;
    if (work) { first = work->next; if (!first) last = 0; ahead -= work->kind == LAUNCH; }
    if (work && (!broken || work->kind >= EVENT)) act(work);
    pthread_mutex_unlock(&lock);
    free(work);
    return work != 0;
}

int cuInit(unsigned how) { BEGIN(1) return fake_devices ? 0 : NO_DEVICE; }
int cuDeviceGetCount(int *count) { BEGIN(1) *count = fake_devices; return 0; }
int cuDeviceGet(int *device, int number) { BEGIN(1) *device = number; return 0; }
int cuDeviceGetName(char *name, int room, int device) { BEGIN(1) strncpy(name, "fake GPU", room); return 0; }
int cuDeviceGetAttribute(int *value, int what, int device) {
    BEGIN(1)
    *value = what == 75 ? fake_major : what == 76 ? fake_minor : 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { BEGIN(1) *context = &lock; return 0; }
int cuCtxSetCurrent(void *context) { BEGIN(1) current = context; return 0; }
int cuGetErrorString(int code, const char **text) {
    *text = code == OUT_OF_MEMORY ? "out of memory" : code == LAUNCH_FAILED ? "a kernel failed" : "an error";
    return 0;
}
int cuStreamCreate(void **stream, unsigned how) { BEGIN(0) *stream = &first; return 0; }
int cuStreamSynchronize(void *stream) { BEGIN(0) while (step()) {} return broken; }
int cuMemAlloc_v2(uint64_t *address, size_t size) {
    BEGIN(0)
    *address = fake_allocate(size);
    fake_live += *address != 0;
    return *address ? 0 : OUT_OF_MEMORY;
}
static int later(int kind, uint64_t what) {
    put(kind, 0)->target = what;
    fake_live--;
    done();
    while (step()) {}
    return broken;
}
int cuMemFree_v2(uint64_t address) { return later(FREE, address); }
static int ours(uint64_t address) { return address >= fake_base && address < fake_base + fake_size; }
int cuMemcpyAsync(uint64_t target, uint64_t source, size_t size, void *stream) {
    BEGIN(0)
    Work *work = put(MOVE, ours(source) ? 0 : size);
    work->target = target, work->source = ours(source) ? source : 0, work->count = size;
    if (!ours(source)) memcpy(work->data, (void *)source, size);
    done();
    while (!ours(target) && step()) {} /* memory that is not pinned: it is there when the call returns */
    return broken;
}
static int filled(uint64_t target, uint64_t value, int width, size_t count) {
    Work *work = put(FILL, 0);
    work->target = target, work->value = value, work->width = width, work->count = count;
    return done();
}
int cuMemsetD8Async(uint64_t target, uint8_t value, size_t count, void *stream) {
    BEGIN(0) return filled(target, value, 1, count);
}
int cuMemsetD16Async(uint64_t target, uint16_t value, size_t count, void *stream) {
    BEGIN(0) return filled(target, value, 2, count);
}
int cuMemsetD32Async(uint64_t target, uint32_t value, size_t count, void *stream) {
    BEGIN(0) return filled(target, value, 4, count);
}
int cuEventCreate(void **event, unsigned how) { BEGIN(0) *event = calloc(3, sizeof(int)); fake_live++; return 0; }
int cuEventRecord(void *event, void *stream) {
    BEGIN(0)
    Work *work = put(EVENT, 0);
    work->target = (uint64_t)event;
    ++*(int *)event;
    return done();
}
int cuEventQuery(void *event) {
    BEGIN(0)
    if (*(int *)event) step();
    return broken ? broken : *(int *)event ? NOT_READY : 0;
}
int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    BEGIN(0)
    *milliseconds = ((int *)to)[1] - ((int *)from)[1];
    return broken;
}
int cuEventDestroy_v2(void *event) {
    fake_live--;
    if (*(int *)event) ((int *)event)[2] = 1; else free(event);
    return broken;
}
int cuModuleLoadDataEx(uint64_t *module, const char *text, unsigned count, int *options, void **values) {
    BEGIN(0)
    *module = fake_load(text, values[0], (uint64_t)values[1]);
    fake_live += *module != 0;
    return *module ? 0 : BAD_PTX;
}
int cuModuleUnload(uint64_t module) { return later(UNLOAD, module); }
int cuModuleGetFunction(uint64_t *function, uint64_t module, const char *name) {
    BEGIN(0)
    *function = fake_find(module, name);
    return *function ? 0 : NOT_FOUND;
}
int cuLaunchKernel(uint64_t kernel, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    BEGIN(0)
    if (parameters || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4]) return 1;
    if (y != 1 || z != 1 || ty != 1 || tz != 1 || shared || !x || !tx) return 1;
    size_t size = *(size_t *)extra[3];
    while (ahead >= MOST_AHEAD && step()) {}
    Work *work = put(LAUNCH, size);
    work->target = kernel, work->blocks = x, work->threads = tx, work->count = size;
    memcpy(work->data, extra[1], size);
    return done();
}
