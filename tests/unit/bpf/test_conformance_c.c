/* test_conformance.c on data source C */
#define RUNG "C"
#include "tests/unit/bpf/test_conformance.c"
