/* test_conformance.c on data source F */
#define RUNG "F"
#include "tests/unit/bpf/test_conformance.c"
