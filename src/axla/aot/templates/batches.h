/* The function compiled for a number of rows; AXLA_NO_BATCH when there is none. Arrays have that
 * many rows; the workspace is for the largest. */
#define FILL_PREFIX_BATCH_WORKSPACE_SIZE FILL_ROOM
typedef FILL_FIRST_args FILL_PREFIX_batch_args;
typedef FILL_FIRST_results FILL_PREFIX_batch_results;
static inline int32_t FILL_PREFIX_run_batch(int64_t rows, const FILL_PREFIX_batch_args *args,
    const FILL_PREFIX_batch_results *results, FILL_MEMORY) {
  const void *all = args, *into = results;
  FILL_CALLS
  return AXLA_NO_BATCH;
}
