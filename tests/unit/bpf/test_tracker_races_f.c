/* test_tracker_races.c on data source F */
#define RUNG "F"
#include "tests/unit/bpf/test_tracker_races.c"
