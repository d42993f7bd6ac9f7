/* Source P, whose table has an end. */
#define RUNG "P"
#define TABLE 16384
#include "tests/unit/bpf/table.h"
