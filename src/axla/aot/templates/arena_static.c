static unsigned char memory[MEMORY + 64], *next;

static int start(void) { return 1; }
