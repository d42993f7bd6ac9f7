/* The batch valley of a model, on paper: no server, no GPU. */
#include "core/commands.h"
#include "core/plan_request.h"
#include "core/say.h"
#include "exporter/plan_text.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Why the model cannot be planned: plan_make said err. */
static int refuse_model(const char *option, const char *path,
			const struct arch *a, int err)
{
	const char *why = "no memory; free some";

	if (err == -ENOTSUP)
		why = "not a mixture of experts; a dense model has no batch "
		      "valley";
	else if (err == -ENODATA && a->expert_bytes > 0 && a->dense_bytes > 0)
		why = "the size of its KV cache is not known; plan without "
		      "one: --ctx 0";
	else if (err == -ENODATA)
		why = "how its weights are stored is not known; add --dtype";
	return say(status_of(err), "--%s: %.200s: %s", option, path, why);
}

/* $COLUMNS, else the terminal's width, else 80. */
static unsigned width(void)
{
	const char *said = getenv("COLUMNS");
	long columns = said ? strtol(said, NULL, 10) : 0;
	struct winsize w;

	if (columns < 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0)
		columns = w.ws_col;
	return columns < 1 ? 80 : columns > 1000 ? 1000 : (unsigned)columns;
}

static bool wants_ascii(const struct settings *s)
{
	bool ascii;

	setlocale(LC_CTYPE, "");
	ascii = s->ascii || strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
	setlocale(LC_CTYPE, "C");
	return ascii;
}

static int print(const struct settings *s,
		 const struct model_plan *const *plans, unsigned n)
{
	struct text out = { 0 };
	int err;

	if (s->json)
		plan_write_json(&out, plans, n);
	else if (n > 1)
		plan_write_comparison(&out, plans, n);
	else
		plan_write_table(&out, plans[0]);
	if (!s->json && s->plot == 0)
		plan_write_plot(&out, plans, n, width(), wants_ascii(s));
	err = out.error;
	if (!err && (fwrite(out.data, 1, out.bytes, stdout) != out.bytes ||
		     fflush(stdout)))
		err = -errno;
	text_free(&out);
	if (!err || err == -EPIPE) /* the reader has seen enough */
		return STATUS_OK;
	return say(STATUS_RUNTIME, "plan: output: %s; free some memory or disk",
		   strerror(-err));
}

static int make_and_print(const struct settings *s,
			  const struct plan_request *r)
{
	const struct model_plan *plans[PLAN_COMPARE_MAX];
	struct model_plan *all = calloc(r->n, sizeof(*all));
	int status = STATUS_OK;

	for (unsigned i = 0; i < r->n && !status; i++) {
		int err = all ? plan_make(&r->in[i], r->batches, r->n_batches,
					  &all[i])
			      : -ENOMEM;

		if (err)
			status = refuse_model(i ? "compare" : "model",
					      r->path[i], &r->in[i].arch, err);
		plans[i] = all + i;
	}
	if (!status)
		status = print(s, plans, r->n);
	free(all);
	return status;
}

int cmd_plan(const struct settings *s)
{
	struct plan_request *r = malloc(sizeof(*r));
	int status;

	if (!r)
		return say(STATUS_RUNTIME, "plan: no memory; free some");
	status = plan_request_read(s, r);
	if (!status)
		status = make_and_print(s, r);
	plan_request_done(r);
	free(r);
	return status;
}
