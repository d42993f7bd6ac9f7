#include "target/ray.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define JOB_DIGITS 8u
#define NO_JOB "ffffffff"

/* Where the job stands in a log's name. */
static const char *job_in(const char *name)
{
	static const char driver[] = "python-core-driver-";
	static const char worker[] = "worker-";
	const char *p;

	if (strncmp(name, driver, sizeof(driver) - 1) == 0)
		return name + sizeof(driver) - 1;
	if (strncmp(name, worker, sizeof(worker) - 1) != 0)
		return NULL;
	p = strchr(name + sizeof(worker) - 1, '-');
	return p ? p + 1 : NULL;
}

int ray_job_parse(const char *path, char *out, size_t room)
{
	const char *session = strstr(path, "/session_");
	const char *logs = session ? strstr(session, "/logs/") : NULL;
	const char *job = logs ? job_in(logs + 6) : NULL;
	int n;

	if (!job || memchr(session + 1, '/', (size_t)(logs - session - 1)))
		return -ENOENT;
	for (unsigned i = 0; i < JOB_DIGITS; i++)
		if (!isxdigit((unsigned char)job[i]))
			return -ENOENT;
	if (strncmp(job, NO_JOB, JOB_DIGITS) == 0)
		return -ENOENT;
	n = snprintf(out, room, "%.*s %.8s", (int)(logs - session - 1),
		     session + 1, job);
	return n > 0 && (size_t)n < room ? 0 : -ENOENT;
}

void ray_job_read(pid_t pid, char *out, size_t room)
{
	char path[64], link[512];
	const struct dirent *e;
	ssize_t n;
	DIR *dir;

	out[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !out[0] && (e = readdir(dir))) {
		n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		if (n <= 0)
			continue;
		link[n] = '\0';
		if (ray_job_parse(link, out, room))
			out[0] = '\0';
	}
	if (dir)
		closedir(dir);
}
