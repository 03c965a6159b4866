static FILE *data;

/* The first argument of the program, else FILL_PREFIX_test.bin beside it, else in the current folder. */
static int open_data(int argc, char **argv) {
  static const char name[] = "FILL_PREFIX_test.bin";
  char path[1024];
  size_t length = argc > 0 ? strlen(argv[0]) : 0;
  while (length && argv[0][length - 1] != '/' && argv[0][length - 1] != '\\') --length;
  if (argc > 1) {
    data = fopen(argv[1], "rb");
  } else if (length + sizeof name <= sizeof path) {
    memcpy(path, argv[0], length);
    memcpy(path + length, name, sizeof name);
    data = fopen(path, "rb");
  }
  if (!data && argc < 2) data = fopen(name, "rb");
  if (!data) AXLA_TEST_PRINT("%s: cannot be opened\n", argc > 1 ? argv[1] : name);
  return data != NULL;
}

static void get(void *to, size_t size) {
  if (fread(to, 1, size, data) == size) return;
  AXLA_TEST_PRINT("the file of recorded data is too short\n");
  exit(2);
}
