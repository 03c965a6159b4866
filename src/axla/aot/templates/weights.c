#include "FILL_PREFIX_loader.h"

static FILL_PREFIX_weights side_file;
static const void *weights;

/* The constants, from FILL_PREFIX.weights in the current folder. */
static int load_weights(void) {
  const int32_t code = FILL_PREFIX_weights_open("FILL_PREFIX.weights", &side_file);
  if (code != AXLA_OK) printf("FILL_PREFIX.weights cannot be used: code %ld\n", (long)code);
  weights = side_file.data;
  return code == AXLA_OK;
}
