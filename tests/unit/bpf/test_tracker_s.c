/* test_tracker.c on data source S */
#define RUNG "S"
#include "tests/unit/bpf/test_tracker.c"
