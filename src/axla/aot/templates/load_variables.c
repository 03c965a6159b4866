int32_t FILL_SYMBOL_load_safetensors(const char *path, FILL_SYMBOL_args *args, FILL_PREFIX_weights *out) {
  FILL_DIMS
  static const axla_wanted wanted[FILL_COUNT] = {
    FILL_WANTED
  };
  void *found[FILL_COUNT];
  int32_t code = axla_map(path, out);
  if (code == AXLA_OK) code = axla_find(out, wanted, FILL_COUNT, found);
  if (code == AXLA_OK) code = axla_align(out, wanted, FILL_COUNT, found);
  if (code == AXLA_OK) axla_turn(wanted, FILL_COUNT, found);
  else {
    FILL_PREFIX_weights_close(out);
    return code;
  }
  FILL_SET
  return AXLA_OK;
}
