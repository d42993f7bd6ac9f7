/*
 * inject_load.h - what happens after the borrowed thread is back: the library's
 * content, and the talk with the new thread
 */
#ifndef MOETOP_TARGET_INJECT_LOAD_H
#define MOETOP_TARGET_INJECT_LOAD_H

#include "target/inject_borrow.h"

/*
 * Have the new thread load the library: from its memfd through /proc, or, where
 * the target sees no /proc, from a file in a directory of the target that is
 * removed at once.  Waits until the new thread has ended its work, or
 * b->deadline_ns.  0, or -errno with the refusal in *r.
 */
int load_library(struct borrow *b, struct inject_report *r);

#endif
