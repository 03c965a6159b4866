/* FILL_NAME */
#define FILL_SYMBOL_NUM_ARGS FILL_ARGCOUNT
#define FILL_SYMBOL_NUM_RESULTS FILL_RESULTCOUNT
#define FILL_SYMBOL_WORKSPACE_SIZE FILL_WORKSPACE
#define FILL_SYMBOL_ALIGNMENT FILL_ALIGNMENT
FILL_SIZES

typedef struct FILL_SYMBOL_args {
  FILL_ARGS
} FILL_SYMBOL_args;
typedef struct FILL_SYMBOL_results {
  FILL_RESULTS
} FILL_SYMBOL_results;

#ifdef __cplusplus
extern "C" {
#endif
int32_t FILL_SYMBOL_run(const FILL_SYMBOL_args *args, const FILL_SYMBOL_results *results,
    FILL_MEMORY);
int32_t FILL_SYMBOL_run_frame(axla_frame *frame);
#ifdef __cplusplus
}
#endif

FILL_ERROR
