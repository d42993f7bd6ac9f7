/* The batch valley of a model, on paper: no server, no GPU. */
#include "core/commands.h"
#include "core/say.h"
#include "exporter/plan_text.h"
#include "model/plan.h"
#include "model/valley.h"
#include "target/model_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char default_batches[] = "1,2,4,8,16,32,64,128,256,512,1024";

static int refuse_gpu(const char *name)
{
	char names[400] = "";
	const struct gpu *g;
	size_t n = 0;

	for (unsigned i = 0; (g = gpu_at(i)) && n < sizeof(names); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
				      i ? ", " : "", g->name);
	return say(STATUS_USAGE, "--gpu: '%.40s' is not known; give one of %s",
		   name, names);
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

/* Arguments that need no file; a status. */
static int read_arguments(const struct settings *s, struct plan_input *in,
			  double *batches, unsigned *n)
{
	const char *list = s->batch ? s->batch : default_batches;

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
		return refuse_gpu(s->gpu);
	if (plan_layout(&in->gpus, &in->tp, &in->ep))
		return say(STATUS_USAGE,
			   "plan: the GPUs do not divide into groups of --tp "
			   "%ld and --ep %ld; make --gpus a multiple of both",
			   s->tp, s->ep);
	if (read_batches(list, batches, n))
		return say(
			STATUS_USAGE,
			"--batch: '%.60s' is not understood; give at most %u "
			"whole numbers from 1 to %.0f, as 1,8,64",
			list, PLAN_POINTS_MAX, PLAN_BATCH_MAX);
	return STATUS_OK;
}

static int read_model(const struct settings *s, struct plan_input *in)
{
	char why[256] = "";
	int err = model_config_read(s->model, &in->arch, why, sizeof(why));

	if (err)
		return say(status_of(err),
			   "--model: %.200s: %s; name the model's config.json",
			   s->model, *why ? why : strerror(-err));
	plan_store_as(&in->arch, (enum plan_dtype)s->dtype);
	if (arch_is_moe(&in->arch) && in->ep > in->arch.experts)
		return say(
			STATUS_USAGE,
			"--ep: %.0f ranks are more than the %u experts; give "
			"fewer",
			in->ep, in->arch.experts);
	return STATUS_OK;
}

/* Why the model cannot be planned: plan_make said err. */
static int refuse_model(const struct settings *s, const struct plan_input *in,
			int err)
{
	const char *why = "no memory; free some";

	if (err == -ENOTSUP)
		why = "not a mixture of experts; a dense model has no batch "
		      "valley";
	else if (err == -ENODATA && in->arch.expert_bytes > 0 &&
		 in->arch.dense_bytes > 0)
		why = "the size of its KV cache is not known; plan without "
		      "one: --ctx 0";
	else if (err == -ENODATA)
		why = "how its weights are stored is not known; add --dtype";
	return say(status_of(err), "--model: %.200s: %s", s->model, why);
}

static int print(const struct settings *s, const struct model_plan *p)
{
	struct text out = { 0 };
	int err;

	if (s->json)
		plan_write_json(&out, p);
	else
		plan_write_table(&out, p);
	err = out.error;
	if (!err)
		fwrite(out.data, 1, out.bytes, stdout);
	text_free(&out);
	if (err)
		return say(STATUS_RUNTIME, "plan: %s; free some memory",
			   strerror(-err));
	return STATUS_OK;
}

int cmd_plan(const struct settings *s)
{
	double batches[PLAN_POINTS_MAX];
	struct plan_input in;
	struct model_plan *p;
	unsigned n = 0;
	int err, status = read_arguments(s, &in, batches, &n);

	if (!status)
		status = read_model(s, &in);
	if (status)
		return status;
	p = malloc(sizeof(*p));
	err = p ? plan_make(&in, batches, n, p) : -ENOMEM;
	status = err ? refuse_model(s, &in, err) : print(s, p);
	free(p);
	return status;
}
