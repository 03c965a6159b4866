/* FILL_SIGNATURE */
static int run_FILL_SYMBOL(void) {
  FILL_ARRAYS
  FILL_SYMBOL_args args;
  FILL_SYMBOL_results results;
  int32_t code;
  FILL_COUNTER
  FILL_STRUCTS
  FILL_NUMBERS

  code = FILL_CALL;
  if (code != AXLA_OK) {
    fprintf(stderr, "FILL_SYMBOL: %s\n", FILL_SYMBOL_error(code));
    return 1;
  }
  FILL_PRINT
  return 0;
}
