/* test_conformance.c on data source P */
#define RUNG "P"
#include "tests/unit/bpf/test_conformance.c"
