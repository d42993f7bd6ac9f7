/* Source S, whose table has an end. */
#define RUNG "S"
#define TABLE 16384
#include "tests/unit/bpf/table.h"
