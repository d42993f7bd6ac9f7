/* test_tracker.c on data source F */
#define RUNG "F"
#include "tests/unit/bpf/test_tracker.c"
