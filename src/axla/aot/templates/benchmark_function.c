static FILL_SYMBOL_args args_FILL_SYMBOL;
static FILL_SYMBOL_results results_FILL_SYMBOL;
static void *workspace_FILL_SYMBOL;

static int setup_FILL_SYMBOL(void) {
  FILL_COUNTER
  again();
  FILL_ARRAYS
  workspace_FILL_SYMBOL = take('w', FILL_SYMBOL_WORKSPACE_SIZE, FILL_ALIGNMENT);
  FILL_STRUCTS
  FILL_NUMBERS
  return 0;
}

static int32_t run_FILL_SYMBOL(void) { return FILL_CALL; }
