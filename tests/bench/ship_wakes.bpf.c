/*
 * ship_wakes.bpf.c - the same, and the reader is woken as the ring does by
 * default: whenever it has read all that there was
 */
#define SHIP_FLAGS 0
#include "tests/bench/ship.bpf.c"
