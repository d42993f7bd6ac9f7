#include "core/commands.h"
#include "core/say.h"
#include "core/session.h"
#include "exporter/exporter.h"

#include <errno.h>
#include <string.h>

int cmd_view(const struct settings *s)
{
	const struct session_config config = { .settings = s,
					       .pid = (pid_t)s->pid };

	return session_run(&config);
}

int cmd_record(const struct settings *s)
{
	struct session_config config = { .settings = s, .pid = (pid_t)s->pid };
	char why[256] = "";
	int err, status;

	err = recorder_open(&config.recorder, s->output, why, sizeof(why));
	if (err)
		return say(status_of(err), "%s", why[0] ? why : strerror(-err));
	status = session_run(&config);
	err = recorder_close(config.recorder);
	if (err && status == STATUS_OK)
		return say(status_of(err),
			   "%s: %s; the end of the recording is lost",
			   s->output, strerror(-err));
	return status;
}
