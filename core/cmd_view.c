#include "core/broker.h"
#include "core/commands.h"
#include "core/fleet.h"
#include "core/privileges.h"
#include "core/say.h"
#include "core/server_list.h"
#include "core/session.h"
#include "core/views.h"
#include "exporter/exporter.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* The server that was found; without a screen also the next one, when it has
 * ended.  By then this thread has no capability left. */
static int watch_found(const struct settings *s, struct session_config *config)
{
	struct broker *keeper = NULL;
	int status;

	privileges_seal();
	if (!views_want_screen(s))
		(void)broker_new(&keeper, PRIVILEGES_ALL);
	config->keeper = keeper;
	do
		status = session_run(config);
	while (status == STATUS_TARGET &&
	       !server_list_await(s, keeper, &config->pid));
	broker_free(keeper);
	return status;
}

int cmd_view(const struct settings *s)
{
	struct session_config config = { .settings = s, .pid = (pid_t)s->pid };
	int status;

	if (s->all)
		return fleet_run(s);
	if (s->pid)
		return session_run(&config);
	if (server_list_choose(s, &config.pid, &status))
		return status;
	return watch_found(s, &config);
}

int cmd_record(const struct settings *s)
{
	struct session_config config = { .settings = s, .pid = (pid_t)s->pid };
	char why[256] = "";
	int err, status;

	/* before a file is made for nothing */
	if (kill(config.pid, 0) && errno == ESRCH)
		return say(STATUS_TARGET,
			   "pid %d: no such process; give the pid of a running "
			   "server",
			   (int)config.pid);
	err = recorder_open(&config.recorder, s->output, why, sizeof(why));
	if (err)
		return say_why(err, why, "name a file that can be written");
	status = session_run(&config);
	err = recorder_close(config.recorder);
	if (err && status == STATUS_OK)
		return say(status_of(err),
			   "%s: %s; the end of the recording is lost",
			   s->output, strerror(-err));
	return status;
}
