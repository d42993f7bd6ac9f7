/* Source P, over a UNIX socket. */
#define RUNG "P"
#define OVER_UNIX
#include "tests/unit/bpf/test_conformance.c"
