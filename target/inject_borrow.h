/*
 * inject_borrow.h - the time in which a thread of the target works for us
 */
#ifndef MOETOP_TARGET_INJECT_BORROW_H
#define MOETOP_TARGET_INJECT_BORROW_H

#include "target/inject_image.h"
#include "target/inject_maps.h"
#include "target/inject_probe.h"

struct borrow {
	const struct inject_target *target;
	const struct inject_image *image;
	const struct boot_code *boot;
	uint64_t deadline_ns;
	struct maps maps; /* of the target, when its threads were looked at */
	bool urgent;      /* we may give threads real-time priority */

	/* after borrow_run */
	int fd;                       /* ours, of the library's memfd; -1 */
	int fd_there;                 /* the same in the target */
	struct boot_control *control; /* shared with the new thread; NULL */
};

enum borrow_end {
	BORROW_DONE,  /* the new thread is there, the old one back */
	BORROW_AGAIN, /* nothing has happened; try another thread */
	BORROW_LOST,  /* the same, but not this one again: it cannot be stopped
			 now (vfork; stop_let_go is for it), or is unfit */
	BORROW_FAILED /* see the report */
};

/*
 * Make the target start our thread from the one that is chosen.  However this
 * ends, the thread goes on with its work.  r's thread, call, stops, pause_ns
 * are set; on BORROW_FAILED also the refusal.
 */
enum borrow_end borrow_run(struct borrow *b, const struct thread_choice *choice,
			   struct inject_report *r);

/* Give up our ends of what borrow_run made. */
void borrow_close(struct borrow *b);

#endif
