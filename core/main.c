/*
 * moetop - what a mixture-of-experts server costs, live
 *
 * Reads the arguments and hands over to the command.
 */
#include "core/commands.h"
#include "core/counters.h"
#include "core/privileges.h"
#include "core/say.h"
#include "core/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int cmd_help(const struct settings *s)
{
	settings_help(stdout,
		      s->command == COMMAND_HELP ? s->topic : s->command);
	return STATUS_OK;
}

static int cmd_version(const struct settings *s)
{
	(void)s;
	printf("moetop %s\n", MOETOP_VERSION);
	return STATUS_OK;
}

static int (*const commands[COMMANDS])(const struct settings *s) = {
	[COMMAND_VIEW] = cmd_view,     [COMMAND_RUN] = cmd_run,
	[COMMAND_DEMO] = cmd_demo,     [COMMAND_DOCTOR] = cmd_doctor,
	[COMMAND_RECORD] = cmd_record, [COMMAND_REPLAY] = cmd_replay,
	[COMMAND_CONFIG] = cmd_config, [COMMAND_PLAN] = cmd_plan,
	[COMMAND_HELP] = cmd_help,     [COMMAND_VERSION] = cmd_version,
};

/* A file of ours that took the place of a closed standard stream would get what
 * is meant for that. */
static void fill_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* Of a write that failed earlier, whose errno is gone. */
static int error_of_output(void)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&p, 1, 0) == 1 && p.revents & POLLERR ? EPIPE : EIO;
}

/* What was printed and not yet written. */
static int finish(int status)
{
	int err = ferror(stdout) ? error_of_output() : 0;

	if (fflush(stdout))
		err = errno;
	if (!err || err == EPIPE || status)
		return status;
	return say(STATUS_RUNTIME,
		   "output: %s; free some space, or write elsewhere",
		   strerror(err));
}

/* Whose rights the command has. */
static int settle_privileges(const struct settings *s)
{
	char why[256] = "";
	int err = 0;

	if (privileges_elevated() && s->agent)
		return say(STATUS_USAGE,
			   "--agent: not for a moetop with file capabilities; "
			   "install the agent beside it, or run it as root");
	if (s->user)
		err = privileges_become(s->user, why, sizeof(why));
	return err ? say(status_of(err), "%s", why) : STATUS_OK;
}

int main(int argc, char **argv)
{
	struct settings s;
	char why[512];
	int status;

	/* it loads what its arguments name: for no one else's rights */
	if (argc > 1 && !strcmp(argv[1], COUNTERS_WORD))
		return privileges_elevated() ? STATUS_PERMISSION
					     : counters_main(argc, argv);

	if (privileges_begin())
		return say(STATUS_USAGE,
			   "setuid: moetop is not made for it; use file "
			   "capabilities, docs/PRIVILEGES.md");
	if (settings_parse(&s, argc, argv, why, sizeof(why)))
		return say(STATUS_USAGE, "%s", why);
	if (s.bad_lines && s.command != COMMAND_CONFIG)
		say(STATUS_OK, "%s", s.first_bad);
	if (s.command != COMMAND_RUN) {
		/* a closed pipe is an error of write, which is looked at */
		signal(SIGPIPE, SIG_IGN);
		fill_streams();
	}
	if (s.help)
		status = cmd_help(&s);
	else if (s.version)
		status = cmd_version(&s);
	else if (!(status = settle_privileges(&s)))
		status = commands[s.command](&s);
	settings_fini(&s);
	return finish(status);
}
