/*
 * notify.h - the service manager is told that moetop is up and alive
 *
 * The protocol of sd_notify(3), where NOTIFY_SOCKET is set; else nothing.  One
 * thread.
 */
#ifndef MOETOP_CORE_NOTIFY_H
#define MOETOP_CORE_NOTIFY_H

#include <stdint.h>

struct notify {
	int fd;             /* connected; -1: nobody wants to know */
	uint64_t period_ns; /* of the watchdog's messages; 0: no watchdog */
	uint64_t told_ns;
};

/* Takes the variables out of the environment: they are not for children. */
void notify_init(struct notify *n);
void notify_ready(struct notify *n);
/* To be called often: says so when the watchdog's time is half over. */
void notify_alive(struct notify *n, uint64_t now_ns);
/* It is about to end. */
void notify_fini(struct notify *n);

#endif
