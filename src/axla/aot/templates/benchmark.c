/* Measures how long a run takes, for about a second or the number of seconds that is the argument. */
#if defined(__unix__) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 199309L
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "FILL_PREFIX.h"
