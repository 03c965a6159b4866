/* Calls each function of FILL_NAME once:
 *   cc example.c FILL_PARTS -o example && ./example
 */
#include <stdio.h>
#include <stdlib.h>
#include "FILL_PREFIX.h"

/* The first multiple of 64 from an address on. */
static void *aligned(void *memory) { return (unsigned char *)memory + (64 - (uintptr_t)memory % 64) % 64; }
