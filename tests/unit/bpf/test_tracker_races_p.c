/* test_tracker_races.c on data source P */
#define RUNG "P"
#include "tests/unit/bpf/test_tracker_races.c"
