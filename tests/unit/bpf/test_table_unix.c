/* UNIX sockets, whose table has an end. */
#define OVER_UNIX
#define TABLE 4096
#include "tests/unit/bpf/table.h"
