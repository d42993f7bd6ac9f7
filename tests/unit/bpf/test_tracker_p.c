/* test_tracker.c on data source P */
#define RUNG "P"
#include "tests/unit/bpf/test_tracker.c"
