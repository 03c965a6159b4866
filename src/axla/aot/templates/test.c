/* Calls each function with recorded arguments and compares the results. The status is 0 when all agree.
 *
 * AXLA_TEST_EMBEDDED: for machines without a system, that have memcpy and memcmp only. AXLA_TEST_PRINT: what
 * to report with, like printf.
 */
#include <stddef.h>
#include <stdint.h>
#ifdef AXLA_TEST_EMBEDDED
void *memcpy(void *to, const void *from, size_t size);
int memcmp(const void *left, const void *right, size_t size);
#ifndef AXLA_TEST_PRINT
#define AXLA_TEST_PRINT say_nothing
static void say_nothing(const char *format, ...) { (void)format; }
#endif
#else
#include <stdlib.h>
#include <string.h>
#ifndef AXLA_TEST_PRINT
#include <stdio.h>
#define AXLA_TEST_PRINT printf
#endif
#endif

FILL_FILES
#include "FILL_PREFIX.h"
