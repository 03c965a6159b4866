  /* Weights: the contents of the side file, at an address that is a multiple of 64. */
  explicit FILL_CLASS(const void *weights, AllocMode mode = AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS)
      : CompiledFunction(StaticData(), leaves_table, args_table, results_table, mode) { set_weights(weights); }
  void set_weights(const void *weights) { frame_.constants = weights; }
