/* test_tracker.c on data source C */
#define RUNG "C"
#include "tests/unit/bpf/test_tracker.c"
