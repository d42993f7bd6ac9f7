/* test_tracker_races.c on data source C */
#define RUNG "C"
#include "tests/unit/bpf/test_tracker_races.c"
