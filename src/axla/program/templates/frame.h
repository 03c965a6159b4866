#ifndef AXLA_FRAME_VERSION
#define AXLA_FRAME_VERSION FILL_VERSION

enum {
  AXLA_OK = 0,
  FILL_CODES
};

typedef struct axla_frame axla_frame;
typedef int32_t axla_entry_function(axla_frame *frame);
typedef int32_t axla_kernel(axla_frame *frame, void *args, int64_t begin, int64_t end);
typedef int32_t axla_parallel_for(axla_frame *frame, axla_kernel *kernel, void *args, int64_t count,
                                  int64_t grain);
/* An entry of the function table: operand and result addresses in the order of their leaves. */
typedef int32_t axla_function(axla_frame *frame, void *const *operands, void *const *results,
                              const char *opaque, int64_t opaque_length);

FILL_FRAME

#endif /* AXLA_FRAME_VERSION */
