/* test_conformance.c on data source S */
#define RUNG "S"
#include "tests/unit/bpf/test_conformance.c"
