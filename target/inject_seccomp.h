/*
 * inject_seccomp.h - would a seccomp filter let the target make our calls?
 *
 * Known before the first of them is made: the kernel hands out the filters of a
 * stopped thread, and we run them here on the calls that will be made.
 */
#ifndef MOETOP_TARGET_INJECT_SECCOMP_H
#define MOETOP_TARGET_INJECT_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/types.h>

#define SECCOMP_PROGRAM_MAX 4096u /* BPF_MAXINSNS */
#define SECCOMP_FILTERS_MAX 64u

/* What the kernel would do with the call: SECCOMP_RET_*.  A program that makes
 * no sense kills. */
uint32_t seccomp_run(const struct sock_filter *program, unsigned n,
		     const struct seccomp_data *call);

enum seccomp_verdict {
	SECCOMP_PASSES,
	SECCOMP_FORBIDS,   /* the call that is named would fail */
	SECCOMP_KILLS,     /* the target would not survive it */
	SECCOMP_UNREADABLE /* the kernel does not show us the filters */
};

/* A set of filters, all of which are asked: the strictest answer counts. */
struct seccomp_filters {
	unsigned n;
	struct {
		unsigned n;
		struct sock_filter *program;
	} all[SECCOMP_FILTERS_MAX];
};

/* The first of our calls that the filters do not let pass; *name is its name. */
enum seccomp_verdict seccomp_judge(const struct seccomp_filters *f,
				   const char **name);

/* The filters of a thread that we have stopped.  0 or -errno; to be freed. */
int seccomp_fetch(pid_t tid, struct seccomp_filters *f);
void seccomp_free(struct seccomp_filters *f);

#endif
