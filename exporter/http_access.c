#include "exporter/http_parts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define FILES_MAX 4u

/* What tells one version of a file from another; all 0: it is not there. */
struct version {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed, modified;
};

/* What a configuration asks of whoever connects. */
enum {
	ASKS_TLS = 1,
	ASKS_PASSWORD = 2,
	ASKS_CERTIFICATE = 4, /* nobody comes in without one */
	ASKS_AUTHORITY = 8,   /* that it is signed by */
	ASKS_NAME = 16,       /* that it is for */
};

struct access {
	const char *path; /* NULL: open to all */
	void (*report)(void *arg, const char *line);
	void *arg;
	bool broken;
	unsigned asks; /* ASKS_*, of the last file that was taken */
	struct web_config config;
	struct tls *tls;
	char *files[FILES_MAX]; /* that it was made of; [0] is path */
	struct version versions[FILES_MAX];
	unsigned n_files;
	double tokens; /* of the rate limit */
	struct timespec refilled;
};

/* ---- versions ----------------------------------------------------------- */

static void look(const char *path, struct version *v)
{
	struct stat st;

	memset(v, 0, sizeof(*v));
	if (stat(path, &st))
		return;
	v->dev = st.st_dev;
	v->ino = st.st_ino;
	v->size = st.st_size;
	v->changed = st.st_ctim;
	v->modified = st.st_mtim;
}

static bool differs(const struct version *x, const struct version *y)
{
	return x->dev != y->dev || x->ino != y->ino || x->size != y->size ||
	       x->changed.tv_sec != y->changed.tv_sec ||
	       x->changed.tv_nsec != y->changed.tv_nsec ||
	       x->modified.tv_sec != y->modified.tv_sec ||
	       x->modified.tv_nsec != y->modified.tv_nsec;
}

static bool changed(const struct access *a)
{
	struct version now;

	for (unsigned i = 0; i < a->n_files; i++) {
		look(a->files[i], &now);
		if (differs(&now, &a->versions[i]))
			return true;
	}
	return false;
}

/* Before it is read: what changes while it is read is read again. */
static void watch(struct access *a, const char *path)
{
	if (!path || a->n_files == FILES_MAX)
		return;
	a->files[a->n_files] = strdup(path);
	if (a->files[a->n_files])
		look(path, &a->versions[a->n_files++]);
}

static void forget(struct access *a)
{
	for (unsigned i = 0; i < a->n_files; i++)
		free(a->files[i]);
	a->n_files = 0;
}

/* ---- loading ------------------------------------------------------------ */

static int load(struct access *a, char *why, size_t why_bytes)
{
	char detail[384] = "";
	struct web_config config;
	struct tls *tls = NULL;
	int err;

	forget(a);
	watch(a, a->path);
	err = web_config_read(&config, a->path, detail, sizeof(detail));
	if (!err && config.have_tls) {
		watch(a, config.tls.cert_file);
		watch(a, config.tls.key_file);
		watch(a, config.tls.client_ca_file);
		err = tls_new(&tls, &config.tls, detail, sizeof(detail));
		if (err)
			web_config_fini(&config);
	}
	if (err) {
		snprintf(why, why_bytes,
			 "--web.config.file %.150s: %s; correct the file",
			 a->path, detail);
		return err;
	}
	web_config_fini(&a->config);
	tls_release(a->tls);
	a->config = config;
	a->tls = tls;
	a->tokens = fmax(config.rate_burst, 1);
	return 0;
}

static unsigned asks_of(const struct web_config *c)
{
	enum client_auth auth = c->tls.client_auth;

	return (c->have_tls ? ASKS_TLS : 0) | (c->n_users ? ASKS_PASSWORD : 0) |
	       (auth == CLIENT_REQUIRE_ANY || auth == CLIENT_REQUIRE_AND_VERIFY
			? ASKS_CERTIFICATE
			: 0) |
	       (auth >= CLIENT_VERIFY_IF_GIVEN ? ASKS_AUTHORITY : 0) |
	       (c->tls.n_sans ? ASKS_NAME : 0);
}

int access_new(struct access **out, const char *path,
	       void (*report)(void *arg, const char *line), void *arg,
	       char *why, size_t why_bytes)
{
	struct access *a = calloc(1, sizeof(*a));
	int err = 0;

	if (!a)
		return -ENOMEM;
	a->path = path;
	a->report = report;
	a->arg = arg;
	if (path)
		err = load(a, why, why_bytes);
	if (err) {
		access_free(a);
		return err;
	}
	a->asks = asks_of(&a->config);
	*out = a;
	return 0;
}

void access_free(struct access *a)
{
	if (!a)
		return;
	forget(a);
	web_config_fini(&a->config);
	tls_release(a->tls);
	free(a);
}

/* ---- now ---------------------------------------------------------------- */

/* What may not change while it runs, and does; NULL: nothing.  A file that is
 * half written is often a good one that asks for less: it must not open the
 * door. */
static const char *forbidden_change(unsigned had, unsigned has)
{
	static const struct {
		unsigned asks;
		const char *words;
	} less[] = {
		{ ASKS_TLS, "TLS cannot be switched off" },
		{ ASKS_PASSWORD, "passwords cannot be switched off" },
		{ ASKS_CERTIFICATE | ASKS_AUTHORITY | ASKS_NAME,
		  "less cannot be asked of client certificates" },
	};

	/* connections already speak the one or the other */
	if (has & ~had & ASKS_TLS)
		return "TLS cannot be switched on";
	for (unsigned i = 0; i < sizeof(less) / sizeof(less[0]); i++)
		if (had & ~has & less[i].asks)
			return less[i].words;
	return NULL;
}

static void reload(struct access *a)
{
	const char *forbidden = NULL;
	char why[640] = "";

	a->broken = load(a, why, sizeof(why)) != 0;
	if (!a->broken)
		forbidden = forbidden_change(a->asks, asks_of(&a->config));
	if (forbidden) {
		snprintf(why, sizeof(why),
			 "--web.config.file %.150s: %s while it runs; start "
			 "moetop again",
			 a->path, forbidden);
		a->broken = true;
	}
	if (!a->broken)
		a->asks = asks_of(&a->config);
	if (!a->report)
		return;
	if (!a->broken)
		snprintf(why, sizeof(why),
			 "--web.config.file %.150s: read again; it holds from "
			 "now on",
			 a->path);
	a->report(a->arg, why);
}

const struct web_config *access_now(struct access *a, struct tls **tls)
{
	if (a->path && changed(a))
		reload(a);
	*tls = a->tls;
	return a->broken ? NULL : &a->config;
}

bool access_rate(struct access *a)
{
	const struct web_config *c = &a->config;
	struct timespec now;
	double passed;

	if (!(c->rate_interval_s > 0))
		return true;
	clock_gettime(CLOCK_MONOTONIC, &now);
	passed = (double)(now.tv_sec - a->refilled.tv_sec) +
		 (double)(now.tv_nsec - a->refilled.tv_nsec) * 1e-9;
	a->refilled = now;
	a->tokens = fmin(a->tokens + passed / c->rate_interval_s,
			 fmax(c->rate_burst, 1));
	if (a->tokens < 1)
		return false;
	a->tokens -= 1;
	return true;
}
