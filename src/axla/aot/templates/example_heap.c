static void *allocate(size_t size) {
  void *memory = malloc(size + 64);
  if (!memory) {
    fprintf(stderr, "out of memory\n");
    exit(1);
  }
  return aligned(memory);
}
