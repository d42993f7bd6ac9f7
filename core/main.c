/*
 * moetop - what a mixture-of-experts server costs, live
 *
 * Reads the arguments and hands over to the command.
 */
#include "core/commands.h"
#include "core/say.h"
#include "core/settings.h"

#include <signal.h>
#include <stdio.h>

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
	[COMMAND_VIEW] = cmd_view,       [COMMAND_RUN] = cmd_run,
	[COMMAND_DEMO] = cmd_demo,       [COMMAND_DOCTOR] = cmd_doctor,
	[COMMAND_RECORD] = cmd_record,   [COMMAND_REPLAY] = cmd_replay,
	[COMMAND_PLAN] = cmd_plan,       [COMMAND_HELP] = cmd_help,
	[COMMAND_VERSION] = cmd_version,
};

int main(int argc, char **argv)
{
	struct settings s;
	char why[512];
	int status;

	if (settings_parse(&s, argc, argv, why, sizeof(why)))
		return say(STATUS_USAGE, "%s", why);
	/* a closed pipe is an error of write, which is looked at */
	if (s.command != COMMAND_RUN)
		signal(SIGPIPE, SIG_IGN);
	if (s.help)
		status = cmd_help(&s);
	else if (s.version)
		status = cmd_version(&s);
	else
		status = commands[s.command](&s);
	settings_fini(&s);
	return status;
}
