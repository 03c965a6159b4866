#ifdef AXLA_TEST_EMBEDDED
#error "this test reads files"
#endif
#include <stdio.h>
