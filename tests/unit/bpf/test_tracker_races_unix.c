/* Connections over a UNIX socket. */
#define OVER_UNIX
#include "tests/unit/bpf/test_tracker_races.c"
