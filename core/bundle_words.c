/*
 * The words that must not be in a bundle.
 */
#include "core/bundle_parts.h"
#include "target/proc.h"

#include <ctype.h>
#include <netdb.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX (256u << 10)
#define FIRST_USER 1000u
#define LAST_USER 60000u

static void add_file(struct scrub *s, pid_t pid, const char *name,
		     void (*take)(struct scrub *s, const char *data,
				  size_t bytes))
{
	char *text = malloc(BYTES_MAX);
	ssize_t n = text ? proc_read(pid, name, text, BYTES_MAX) : -1;

	if (n > 0)
		take(s, text, (size_t)n);
	free(text);
}

static void add_host(struct scrub *s, const char *name)
{
	char first[256];

	if (!strncmp(name, "localhost", 9))
		return;
	scrub_word(s, name, "<host>", true);
	/* and without its domain */
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(name, "."), name);
	if (!isdigit((unsigned char)first[0]))
		scrub_word(s, first, "<host>", true);
}

static void add_hosts(struct scrub *s)
{
	char name[256] = "", *line = NULL, *save = NULL;
	size_t room = 0;
	FILE *f = fopen("/etc/hosts", "re");

	if (!gethostname(name, sizeof(name) - 1) && name[0])
		add_host(s, name);
	while (f && getline(&line, &room, f) > 0) {
		char *w;

		line[strcspn(line, "#\n")] = '\0';
		w = strtok_r(line, " \t", &save);
		while (w && (w = strtok_r(NULL, " \t", &save)))
			add_host(s, w);
	}
	free(line);
	if (f)
		fclose(f);
}

static void add_uid(struct scrub *s, uid_t uid)
{
	const struct passwd *p = getpwuid(uid);

	if (p && strcmp(p->pw_name, "root") && strcmp(p->pw_name, "nobody"))
		scrub_word(s, p->pw_name, "<user>", true);
}

static void add_users(struct scrub *s, const struct target *t)
{
	const struct passwd *p;

	setpwent();
	while ((p = getpwent()))
		if (p->pw_uid >= FIRST_USER && p->pw_uid <= LAST_USER)
			scrub_word(s, p->pw_name, "<user>", true);
	endpwent();
	add_uid(s, getuid());
	for (unsigned i = 0; t && i < t->n_pids; i++) {
		struct stat st;
		char path[32];

		snprintf(path, sizeof(path), "/proc/%d", (int)t->pids[i]);
		if (!stat(path, &st))
			add_uid(s, st.st_uid);
	}
}

/* The folder of a path, or the owner of a model: "org" of "org/name". */
static void add_folder(struct scrub *s, const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	if (!slash || slash == path)
		return;
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	scrub_word(s, folder, "...", false);
}

void bundle_words(struct scrub *s, const struct doctor *d)
{
	const struct target *t = d->target;

	add_file(s, getpid(), "environ", scrub_environ);
	/* which file capabilities may hide from us */
	for (char *const *v = environ; v && *v; v++)
		scrub_environ(s, *v, strlen(*v));
	for (unsigned i = 0; t && i < t->n_pids; i++) {
		add_file(s, t->pids[i], "environ", scrub_environ);
		add_file(s, t->pids[i], "cmdline", scrub_cmdline);
	}
	add_hosts(s);
	add_users(s, t);
	if (!t)
		return;
	add_folder(s, t->model);
	add_folder(s, t->config_path);
}
