/*
 * FILL_SIGNATURE
 *
FILL_USAGE
 */
class FILL_CLASS final : public ::axla::CompiledFunction,
    public ::axla::Counts<FILL_COUNTS> {
 public:
  explicit FILL_CLASS(AllocMode mode = AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS)
      : CompiledFunction(StaticData(), leaves_table, args_table, results_table, mode) {}
  FILL_CLASS(FILL_CLASS &&other) noexcept : CompiledFunction(StaticData(), leaves_table, args_table, results_table) { move_from(other); }
  FILL_CLASS &operator=(FILL_CLASS &&other) noexcept { return move_from(other), *this; }
  FILL_WEIGHTS

  static size_t ArgSize(size_t i) { return StaticData().args[i].size; }
  static const ::axla::ShapeInfo *ArgShapeInfos() { return StaticData().args; }
  static const ::axla::ShapeInfo *ResultShapeInfos() { return StaticData().results; }

  FILL_ACCESSORS
  static const ::axla::FunctionData &StaticData() {
    FILL_SHAPES
    static const ::axla::ShapeInfo given[] = {
        FILL_GIVEN
    };
    static const ::axla::ShapeInfo made[] = {
        FILL_MADE
    };
    static const ::axla::FunctionData data = {
        FILL_NAME, &::FILL_SYMBOL_run_frame, &::FILL_SYMBOL_error, given, made,
        FILL_COUNTS, FILL_SYMBOL_WORKSPACE_SIZE, FILL_SYMBOL_ALIGNMENT, FILL_TAKES};
    return data;
  }

 private:
  void *leaves_table[FILL_ARGCOUNT], *args_table[FILL_ARGCOUNT];
  void *results_table[FILL_RESULTCOUNT];
};
