/* FILL_NAME: loads weights and the values of variables from files.
 *
 * Files are checked before use; AXLA_OK is 0, axla_error says what other codes mean.
 * What was opened is there until it is closed.
 */
#ifndef AXLA_FILL_PREFIX_LOADER_H
#define AXLA_FILL_PREFIX_LOADER_H
#include "FILL_PREFIX.h"

#ifndef AXLA_FILE_H_1
#define AXLA_FILE_H_1
/* A file in memory. `data`: what to use of it, at a multiple of 64. The rest is for closing. */
typedef struct axla_file {
  const void *data;
  void *base, *start, *copies;
  size_t size;
  int32_t mapped;
} axla_file;

/* An array of the weights: `offset` from `data`. `dtype` is its name in HLO. */
typedef struct axla_tensor {
  const char *name, *dtype;
  const int64_t *dims;
  int32_t rank;
  uint64_t offset, size;
} axla_tensor;
#endif

typedef axla_file FILL_PREFIX_weights;

#ifdef __cplusplus
extern "C" {
#endif
FILL_FUNCTIONS
void FILL_PREFIX_weights_close(FILL_PREFIX_weights *file);
#ifdef __cplusplus
}
#endif
#endif /* AXLA_FILL_PREFIX_LOADER_H */
