/*
 * moetop run -- CMD: become the server, with the agent in it.
 *
 * The driver loads the library that CUDA_INJECTION64_PATH names when CUDA
 * starts, in this process and in its children.  CMD takes this process over, so
 * that its pid, signals and exit status are its own.
 */
#include "core/child.h"
#include "core/commands.h"
#include "core/paths.h"
#include "core/run_model.h"
#include "core/say.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INJECTION "CUDA_INJECTION64_PATH"

int cmd_run(const struct settings *s)
{
	const char *other = getenv(INJECTION);
	char agent[PATH_MAX];
	int err;

	if (path_agent(s->agent, agent, sizeof(agent)))
		return say(STATUS_USAGE,
			   "%s: agent not found; build or install it, or name "
			   "it with --agent PATH",
			   agent);
	if (other && *other && strcmp(other, agent))
		return say(STATUS_USAGE,
			   INJECTION ": already set to %.100s; only one "
				     "library can be injected, unset it",
			   other);
	if (setenv(INJECTION, agent, 1) || child_set_rows(s) ||
	    (s->rows == ROWS_EXACT && run_model_tell(s->rest)))
		return say(STATUS_RUNTIME, "run: no memory; free some");
	execvp(s->rest[0], s->rest);
	err = errno;
	if (err == ENOENT)
		return say(STATUS_RUNTIME,
			   "%s: command not found; check its name and PATH",
			   s->rest[0]);
	return say(status_of(-err), "%s: %s; check the command", s->rest[0],
		   strerror(err));
}
