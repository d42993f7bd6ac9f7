/*
 * bench_discover - how long a look for servers takes beside many processes
 *
 * usage: bench_discover [PROCESSES]; starts so many (2000 unless told), every
 * tenth with a server's command line and a worker below it, and looks.
 */
#include "target/discover.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOKS 11u

static double clock_ms(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int wait_for_end(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pause();
	return 0;
}

/* Itself under other arguments, as a server and its worker have them. */
static void become(const char *self, int i)
{
	if (i % 20 == 0)
		execl(self, "vllm", "serve", "org/name", "--port", "0",
		      (char *)NULL);
	if (i % 20 == 10)
		execl(self, "sglang::scheduler_TP0", (char *)NULL);
	execl(self, "postgres: writer", "--some", "--more=options", "that",
	      "are=not", "ours", (char *)NULL);
	_exit(127);
}

int main(int argc, char **argv)
{
	static struct servers found;
	static double ms[LOOKS], cpu[LOOKS];
	int n = 2000;

	if (strstr(argv[0], "bench_discover") == NULL)
		return wait_for_end();
	if (argc > 1)
		n = atoi(argv[1]);
	setpgid(0, 0); /* all of it is sent a signal in the end */
	for (int i = 0; i < n; i++)
		if (fork() == 0)
			become("/proc/self/exe", i);
	usleep(500000); /* until all have their arguments */
	for (unsigned i = 0; i < LOOKS; i++) {
		double start = clock_ms(CLOCK_MONOTONIC);
		double used = clock_ms(CLOCK_PROCESS_CPUTIME_ID);

		if (discover_servers(&found))
			return 1;
		ms[i] = clock_ms(CLOCK_MONOTONIC) - start;
		cpu[i] = clock_ms(CLOCK_PROCESS_CPUTIME_ID) - used;
	}
	qsort(ms, LOOKS, sizeof(ms[0]), order);
	qsort(cpu, LOOKS, sizeof(cpu[0]), order);
	printf("%d processes, %u servers: %.0f ms at the median (%.0f ms of "
	       "processor time), %.0f at most\n",
	       n, found.n + found.more, ms[LOOKS / 2], cpu[LOOKS / 2],
	       ms[LOOKS - 1]);
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
	return 0;
}
