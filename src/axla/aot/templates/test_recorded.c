static int test_FILL_SYMBOL(void) {
  FILL_SYMBOL_args args;
  FILL_SYMBOL_results results;
  int32_t code;
  int bad = 0;
  again();
  FILL_ARRAYS
  void *workspace = take('w', FILL_SYMBOL_WORKSPACE_SIZE, FILL_ALIGNMENT);
  FILL_STRUCTS
  FILL_GET
  code = FILL_CALL;
  if (code != AXLA_OK) {
    AXLA_TEST_PRINT("FILL_SYMBOL: %s\n", FILL_SYMBOL_error(code));
    return 1;
  }
  FILL_CHECKS
  return bad;
}
