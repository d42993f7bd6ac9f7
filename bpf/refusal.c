#include "bpf/refusal.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool capable(uint64_t all)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
	uint64_t has;

	if (syscall(SYS_capget, &head, data))
		return false;
	has = (uint64_t)data[1].effective << 32 | data[0].effective;
	return (has & all) == all;
}

/* CAP_SYS_ADMIN holds the other two. */
static bool privileged(void)
{
	return capable(1ull << CAP_BPF | 1ull << CAP_PERFMON) ||
	       capable(1ull << CAP_SYS_ADMIN);
}

int refusal_of_load(const struct rung *r, int err, char *why, size_t why_bytes)
{
	if (err == -ENOMEM) {
		snprintf(why, why_bytes, "no memory for the BPF programs");
		return err;
	}
	if (!privileged()) {
		snprintf(why, why_bytes, "no CAP_BPF and CAP_PERFMON");
		return -EPERM;
	}
	if (err == -EPERM && *r->letter == 'C' &&
	    !capable(1ull << CAP_NET_ADMIN)) {
		snprintf(why, why_bytes, "no CAP_NET_ADMIN");
		return -EPERM;
	}
	if (err == -EPERM || err == -EACCES) {
		snprintf(why, why_bytes, "this kernel refuses its programs: %s",
			 strerror(-err));
		return -EACCES;
	}
	snprintf(why, why_bytes, "needs %s: %s", r->needs, strerror(-err));
	return -EOPNOTSUPP;
}
