/*
 * broker.h - the thread that holds the capabilities, and works on request
 *
 * Whoever asks waits until the work is done, so nothing that they share needs a
 * lock.  All signals are blocked in the thread; threads that the work starts
 * inherit its capabilities.
 */
#ifndef MOETOP_CORE_BROKER_H
#define MOETOP_CORE_BROKER_H

#include <stdint.h>

struct broker;

/* A thread with those capabilities of mask that the caller is permitted.  0 and
 * *out, or -errno. */
int broker_new(struct broker **out, uint64_t mask);
/* The same with `from` as the caller, which must not be at work; NULL is this
 * thread. */
int broker_new_from(struct broker *from, struct broker **out, uint64_t mask);

/* Call fn(arg) in that thread; back when it is back. */
void broker_call(struct broker *b, void (*fn)(void *arg), void *arg);

/* From now on it has none but these, and nor has any worker after its next step
 * (core/worker.h). */
void broker_keep(struct broker *b, uint64_t mask);

void broker_free(struct broker *b); /* NULL is legal */

/* One call by a broker of its own.  0 or -errno: it was not made. */
int broker_once(uint64_t mask, void (*fn)(void *arg), void *arg);

#endif
