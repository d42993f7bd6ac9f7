/* Source F, over a UNIX socket. */
#define RUNG "F"
#define OVER_UNIX
#include "tests/unit/bpf/test_conformance.c"
