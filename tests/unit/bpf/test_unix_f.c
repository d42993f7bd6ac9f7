/* test_unix.c on data source F */
#define RUNG "F"
#include "tests/unit/bpf/test_unix.c"
