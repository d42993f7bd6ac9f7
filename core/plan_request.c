#include "core/plan_request.h"
#include "core/say.h"
#include "model/valley.h"
#include "target/model_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char default_batches[] = "1,2,4,8,16,32,64,128,256,512,1024";

static int refuse_gpu(const char *option, const char *name)
{
	char names[900] = "";
	const struct gpu *g;
	size_t n = 0;

	for (unsigned i = 0; (g = gpu_at(i)) && n < sizeof(names); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
				      i ? ", " : "", g->name);
	return say(STATUS_USAGE, "--%s: '%.40s' is not known; give one of %s",
		   option, name, names);
}

/* "1,2,4": whole numbers, in any order. */
static int read_batches(const char *list, double *out, unsigned *n)
{
	const char *p = list;

	for (*n = 0; *n < PLAN_POINTS_MAX; p++) {
		char *end = NULL;
		long b = *p >= '0' && *p <= '9' ? strtol(p, &end, 10) : 0;

		if (b < 1 || b > (long)PLAN_BATCH_MAX)
			return -EINVAL;
		out[(*n)++] = (double)b;
		p = end;
		if (!*p)
			return 0;
		if (*p != ',')
			return -EINVAL;
	}
	return -EINVAL;
}

/* Arguments that need no file. */
static int read_arguments(const struct settings *s, struct plan_request *r)
{
	const char *list = s->batch ? s->batch : default_batches;
	struct plan_input *in = &r->in[0];

	if (!s->model || !s->gpu)
		return say(STATUS_USAGE,
			   "plan: no %s named; give it as moetop plan --model "
			   "CONFIG.json --gpu NAME",
			   s->model ? "GPU" : "model");
	*in = (struct plan_input){
		.gpu = gpu_find(s->gpu),
		.gpus = (double)s->gpus,
		.tp = (double)s->tp,
		.ep = (double)s->ep,
		.context_tokens = (double)s->ctx,
		.skew = s->skew > 0 ? s->skew : VALLEY_SKEW_UNIFORM,
		.usd_per_gpu_hour = s->gpu_price,
	};
	if (!in->gpu)
		return refuse_gpu("gpu", s->gpu);
	if (s->skew > 0 && s->popularity)
		return say(STATUS_USAGE,
			   "--popularity: --skew says how tokens are routed, "
			   "too; give one of them");
	if (plan_layout(&in->gpus, &in->tp, &in->ep))
		return say(STATUS_USAGE,
			   "plan: the GPUs do not divide into groups of --tp "
			   "%ld and --ep %ld; make --gpus a multiple of both",
			   s->tp, s->ep);
	if (read_batches(list, r->batches, &r->n_batches))
		return say(
			STATUS_USAGE,
			"--batch: '%.60s' is not understood; give at most %u "
			"whole numbers from 1 to %.0f, as 1,8,64",
			list, PLAN_POINTS_MAX, PLAN_BATCH_MAX);
	return STATUS_OK;
}

/* ---- models ------------------------------------------------------------ */

/* Of "NAME_config.json" or "NAME/config.json": NAME. */
static void name_by_path(const char *path, char *out, size_t bytes)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	const char *end = strstr(base, "config.json");
	const char *start = base;

	if (!end)
		end = strstr(base, ".json");
	if (!end)
		end = base + strlen(base);
	if (end == base && slash) { /* the folder's name */
		end = slash;
		start = end;
		while (start > path && start[-1] != '/')
			start--;
	}
	while (end > start && strchr("_-.", end[-1]))
		end--;
	snprintf(out, bytes, "%.*s", (int)(end - start), start);
}

static int read_model(const struct settings *s, const char *option,
		      struct plan_request *r, unsigned i)
{
	struct plan_input *in = &r->in[i];
	struct arch *a = &in->arch;
	char why[256] = "";
	int err = model_config_read(r->path[i], a, why, sizeof(why));

	if (err)
		return say(status_of(err), "--%s: %.200s: %s; %s", option,
			   r->path[i], *why ? why : strerror(-err),
			   err == -ENOTSUP ? "docs/STYLE.md tells how to add a "
					     "family"
					   : "name the model's config.json");
	if (!a->name[0])
		name_by_path(r->path[i], a->name, sizeof(a->name));
	plan_store_as(a, (enum plan_dtype)s->dtype);
	if (arch_is_moe(a) && in->ep > a->experts)
		return say(
			STATUS_USAGE,
			"--ep: %.0f ranks are more than the %u experts; give "
			"fewer",
			in->ep, a->experts);
	return STATUS_OK;
}

/* "MODEL", "@GPU", "MODEL@GPU", each GPU with "=USD": the first plan with what
 * is named here. */
static int read_compare(const struct settings *s, const char *text,
			struct plan_request *r, unsigned i)
{
	struct plan_input *in = &r->in[i];
	const char *at = strrchr(text, '@'), *price;
	size_t n = at ? (size_t)(at - text) : strlen(text);
	char gpu[64], *end = NULL;

	if (at && strchr(at, '/')) { /* a path, that one */
		at = NULL;
		n = strlen(text);
	}
	*in = r->in[0];
	in->popularity = NULL;
	snprintf(r->path[i], sizeof(r->path[i]), "%.*s",
		 n ? (int)n : (int)strlen(r->path[0]), n ? text : r->path[0]);
	if (at) {
		price = strchr(at, '=');
		snprintf(gpu, sizeof(gpu), "%.*s",
			 price ? (int)(price - at - 1) : (int)strlen(at + 1),
			 at + 1);
		in->gpu = gpu_find(gpu);
		if (!in->gpu)
			return refuse_gpu("compare", gpu);
		if (price) {
			in->usd_per_gpu_hour = strtod(price + 1, &end);
			if (end == price + 1 || *end ||
			    !(in->usd_per_gpu_hour > 0) ||
			    in->usd_per_gpu_hour > 1e5)
				return say(STATUS_USAGE,
					   "--compare: '%.40s' is not a price; "
					   "give USD per GPU and hour, as "
					   "@H200=3.5",
					   price + 1);
		}
	}
	return read_model(s, "compare", r, i);
}

/* ---- popularity -------------------------------------------------------- */

static int read_text(const char *path, char **out, size_t *bytes)
{
	FILE *f = fopen(path, "re");
	size_t room = 1 << 16, n = 0;
	char *text = f ? malloc(room) : NULL;

	if (!text) {
		if (f)
			fclose(f);
		return errno ? -errno : -ENOMEM;
	}
	while (!feof(f) && !ferror(f) && n < POPULARITY_BYTES_MAX) {
		char *more;

		n += fread(text + n, 1, room - n, f);
		if (n < room)
			continue;
		more = realloc(text, room *= 2);
		if (!more)
			break;
		text = more;
	}
	if (ferror(f) || !feof(f)) {
		int err = ferror(f) ? -errno : -EFBIG;

		fclose(f);
		free(text);
		return err;
	}
	fclose(f);
	*out = text;
	*bytes = n;
	return 0;
}

static int read_popularity(const char *path, struct plan_request *r)
{
	char *text = NULL, why[160] = "";
	size_t bytes = 0;
	int err = read_text(path, &text, &bytes);

	for (unsigned i = 0; !err && i < r->n; i++) {
		const struct arch *a = &r->in[i].arch;

		if (!arch_is_moe(a))
			continue;
		err = popularity_parse(text, bytes, a->experts, a->top_k,
				       &r->popularity[i], why, sizeof(why));
		r->in[i].popularity = r->popularity[i];
	}
	free(text);
	if (!err)
		return STATUS_OK;
	return say(*why ? STATUS_USAGE : status_of(err),
		   "--popularity: %.200s: %s; give a line for each MoE layer "
		   "and in it a number for each expert",
		   path, *why ? why : strerror(-err));
}

/* ---- the whole --------------------------------------------------------- */

int plan_request_read(const struct settings *s, struct plan_request *r)
{
	int status;

	memset(r, 0, sizeof(*r));
	status = read_arguments(s, r);
	if (status)
		return status;
	snprintf(r->path[0], sizeof(r->path[0]), "%s", s->model);
	status = read_model(s, "model", r, 0);
	r->n = 1;
	for (unsigned i = 0; !status && i < s->compare.n; i++)
		status = read_compare(s, s->compare.v[i], r, r->n++);
	if (!status && s->popularity)
		status = read_popularity(s->popularity, r);
	return status;
}

void plan_request_done(struct plan_request *r)
{
	for (unsigned i = 0; i < PLAN_COMPARE_MAX; i++)
		free(r->popularity[i]);
}
