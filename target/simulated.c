#include "target/simulated.h"

#include "target/config.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES_MAX (1u << 20)

/* One file of moetop-sim, by name. */
struct wanted {
	pid_t pid;
	const char *name, *folder, *suffix;
	char path[PATH_MAX]; /* where it was found */
	char *data;          /* owned by the caller */
	size_t bytes;
};

static bool try_path(struct wanted *w, const char *base, const char *folder,
		     const char *suffix)
{
	int n = snprintf(w->path, sizeof(w->path), "%s%s%s%s%s", base, folder,
			 *folder ? "/" : "", w->name, suffix);

	return n > 0 && (size_t)n < sizeof(w->path) &&
	       server_file_load(w->pid, w->path, FILE_BYTES_MAX, &w->data,
				&w->bytes) == 0;
}

static bool try_folder(struct wanted *w, const char *base)
{
	return try_path(w, base, w->folder, "") ||
	       try_path(w, base, w->folder, w->suffix);
}

static bool find(struct wanted *w)
{
	static const char *const above[] = { "", "../../sim/",
					     "../../../sim/" };
	char link[64], self[PATH_MAX], base[PATH_MAX + 16];
	char *slash;
	ssize_t n;

	if (try_path(w, "", "", ""))
		return true;
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)w->pid);
	n = readlink(link, self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < sizeof(above) / sizeof(above[0]); i++) {
		slash[1] = '\0';
		snprintf(base, sizeof(base), "%s%s", self, above[i]);
		if (try_folder(w, base))
			return true;
	}
	return try_folder(w, "sim/");
}

/* Words of a scenario to arguments, in place: comments go, gaps become NUL. */
static size_t to_arguments(char *text)
{
	size_t n = 0;

	for (const char *p = text; *p;) {
		if (*p == '#') {
			p += strcspn(p, "\n");
			continue;
		}
		if (strchr(" \t\r\n", *p)) {
			if (n && text[n - 1])
				text[n++] = '\0';
			p++;
			continue;
		}
		text[n++] = *p++;
	}
	return n;
}

void simulated_settle(pid_t pid, struct cmdline *c)
{
	struct wanted scenario = { .pid = pid,
				   .name = c->config_file,
				   .folder = "scenarios",
				   .suffix = ".options" };
	struct wanted model = { .pid = pid,
				.name = c->model,
				.folder = "models",
				.suffix = ".json" };

	if (c->config_file[0] && find(&scenario)) {
		cmdline_add(c, scenario.data, to_arguments(scenario.data));
		free(scenario.data);
	}
	if (!c->gpu[0])
		strcpy(c->gpu, "H200"); /* its default */
	if (!c->model[0] || !find(&model))
		return;
	free(model.data);
	if (strlen(model.path) < sizeof(c->model))
		strcpy(c->model, model.path);
}
