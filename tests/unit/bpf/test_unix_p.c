/* test_unix.c on data source P */
#define RUNG "P"
#include "tests/unit/bpf/test_unix.c"
