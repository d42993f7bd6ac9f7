/* Source S, over a UNIX socket. */
#define RUNG "S"
#define OVER_UNIX
#include "tests/unit/bpf/test_conformance.c"
