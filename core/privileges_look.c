#include "core/driver.h"
#include "core/privileges.h"
#include "target/proc.h"
#include "target/target.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_filters(pid_t pid)
{
	char text[4096];

	return proc_read(pid, "status", text, sizeof(text)) > 0 &&
	       strstr(text, "\nSeccomp:\t2");
}

/* Of a process that is not dumpable, they are root's. */
static bool is_ours(pid_t pid)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	return !stat(path, &st) && st.st_uid == geteuid();
}

void privileges_look(const struct target *t, struct privileges_facts *f)
{
	f->other_network = t->netns != proc_netns(getpid());
	f->filtered = f->other_user = false;
	for (unsigned i = 0; i < t->n_pids; i++) {
		f->filtered |= has_filters(t->pids[i]);
		f->other_user |= !is_ours(t->pids[i]);
	}
}

/* Of a small file of /proc; "" when it is not there. */
static void read_file(const char *path, char *buf, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, buf, room - 1);

	buf[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

uint64_t privileges_counters(void)
{
	char text[16384], version[48];

	read_file(DRIVER_PARAMS_FILE, text, sizeof(text));
	if (!driver_restricts(text))
		return 0;
	read_file(DRIVER_VERSION_FILE, text, sizeof(text));
	return driver_version(text, version, sizeof(version)) < DRIVER_PERFMON
		       ? PRIVILEGES_COUNTERS
		       : PRIVILEGE(CAP_PERFMON);
}
