/*
 * inject_tool.c - inject() from the command line
 *
 *	inject_tool LIBRARY PID [-c] [-d MOMENT]
 *
 * Prints the report as one line of JSON; exit status 0 when the agent is in.
 *	-c  only look (inject_check)
 *	-d  SIGKILL to ourselves at this moment (see inject_moment); "list" as
 *	    PID prints how many there are
 */
#include "target/inject.h"
#include "target/inject_stop.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int die_at = -1;

static void moment(enum inject_moment m)
{
	if ((int)m == die_at)
		kill(getpid(), SIGKILL);
}

static int open_image(const char *path, struct inject_image *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -1;
	out->bytes = (size_t)st.st_size;
	out->data = mmap(NULL, out->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	return out->data == MAP_FAILED ? -1 : 0;
}

static void print(const struct inject_report *r)
{
	printf("{\"refusal\":\"%s\",\"thread\":%d,\"call\":%d,\"tries\":%u,"
	       "\"stops\":%u,\"pause_us\":%.1f,\"load_us\":%.1f,"
	       "\"why\":\"%s\",\"fix\":\"%s\"}\n",
	       inject_refusal_name(r->refusal), (int)r->thread, r->call,
	       r->tries, r->stops, (double)r->pause_ns / 1e3,
	       (double)r->load_ns / 1e3, r->why, r->fix);
}

int main(int argc, char **argv)
{
	struct inject_image image;
	struct inject_report r;
	int err;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[2], "list")) {
		printf("%d\n", MOMENTS);
		return 0;
	}
	if (open_image(argv[1], &image)) {
		perror(argv[1]);
		return 2;
	}
	if (argc > 4 && !strcmp(argv[3], "-d")) {
		die_at = atoi(argv[4]);
		inject_moment_hook = moment;
	}
	if (argc > 3 && !strcmp(argv[3], "-c"))
		err = inject_check((pid_t)atoi(argv[2]), &r);
	else
		err = inject((pid_t)atoi(argv[2]), &image, &r);
	print(&r);
	return err ? 1 : 0;
}
