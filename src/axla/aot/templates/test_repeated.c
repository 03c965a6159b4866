static int test_FILL_SYMBOL(void) {
  FILL_SYMBOL_args args;
  FILL_SYMBOL_results results;
  int32_t code;
  int bad = 0;
  uint32_t hashes[2];
  int turn;
  FILL_COUNTER
  again();
  FILL_ARRAYS
  void *workspace = take('w', FILL_SYMBOL_WORKSPACE_SIZE, FILL_ALIGNMENT);
  FILL_STRUCTS
  for (turn = 0; turn < 2; ++turn) {
    FILL_NUMBERS
    code = FILL_CALL;
    if (code != AXLA_OK) {
      AXLA_TEST_PRINT("FILL_SYMBOL: %s\n", FILL_SYMBOL_error(code));
      return 1;
    }
    hashes[turn] = 2166136261u;
    FILL_HASHES
  }
  bad = hashes[0] != hashes[1];
  if (bad) AXLA_TEST_PRINT("FILL_SYMBOL: two runs differ\n");
  return bad;
}
