/*
 * guard.h - gives the terminal back, whatever happens to the process
 *
 * Knows no curses: it holds the modes and the two byte sequences, prepared
 * beforehand, that leave and enter the program's screen, so that a signal
 * handler needs only write, tcsetattr and sigaction.  The handlers are for
 *
 *	SEGV BUS FPE ILL ABRT TERM INT HUP QUIT	leave, then what was set before
 *	all others whose default kills, if unused	the same
 *	TSTP	leave, stop, and on the way back ask for the screen again
 *	CONT	ask for the screen again: a shell may have used it
 *
 * One terminal (stdin and stdout) per process, hence file-scope state.
 */
#ifndef MOETOP_TUI_GUARD_H
#define MOETOP_TUI_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#define GUARD_BYTES 256u

struct guard_sequences {
	char enter[GUARD_BYTES], leave[GUARD_BYTES];
	size_t enter_bytes, leave_bytes;
};

/* Remember the modes of the terminal, before anything changes them.  0 or
 * -errno.  Opens the descriptors behind guard_fd. */
int guard_open(void);
/* Forget everything; the terminal must have been left. */
void guard_close(void);

/* From now on the screen is ours, in the modes it has now. */
void guard_arm(const struct guard_sequences *s);
/* Other sequences from now on; the modes stay. */
void guard_change(const struct guard_sequences *s);
/* Leave it, and put the signal handlers back that were there. */
void guard_disarm(void);

/* The screen is ours at this moment; drawing makes sense. */
bool guard_armed(void);

/* Where to write to it: tui/output.h.  Open from guard_open to guard_close. */
int guard_out(void);

/* Readable when the process was stopped and goes on. */
int guard_fd(void);
/* True once after that; the screen has been entered again and shows
 * nothing of ours. */
bool guard_resumed(void);

#endif
