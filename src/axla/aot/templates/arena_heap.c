#ifdef AXLA_TEST_EMBEDDED
FILL_STATIC
#else
static unsigned char *memory, *next;

static int start(void) {
  memory = (unsigned char *)malloc(MEMORY + 64);
  return memory != NULL;
}
#endif
