#include "sim/server/rank.h"

#include <stdio.h>
#include <string.h>

void rank_cut(struct shape *s, const struct rank_part *part)
{
	struct arch *a = &s->arch;
	double n = part->ranks;

	s->qkv_bytes /= n;
	s->output_bytes /= n;
	s->shared_bytes /= n;
	s->mlp_bytes /= n;
	s->head_bytes /= n;
	s->kv_bytes /= n;
	s->total_bytes /= n;
	a->kv_bytes_per_token /= n;
	if (part->expert) {
		s->experts_from = a->experts * part->rank / part->ranks;
		s->experts_to = a->experts * (part->rank + 1) / part->ranks;
		return;
	}
	a->expert_bytes /= n;
	a->expert_params /= n;
	a->expert_inter /= part->ranks;
}

int rank_model_open(struct rank_model *m, const struct sim_options *o,
		    const char *truth_path, char *why, size_t why_bytes)
{
	const struct arch *a = &m->shape.arch;
	int err;

	*m = (struct rank_model){ 0 };
	if (truth_path[0]) {
		err = truth_open(&m->truth, truth_path);
		if (err) {
			snprintf(why, why_bytes, "%.400s: %s", truth_path,
				 strerror(-err));
			return err;
		}
	}
	err = shape_read(o->model, &m->shape, why, why_bytes);
	if (err)
		return err;
	if (o->max_model_len)
		m->shape.max_model_len = o->max_model_len;
	return routing_new(&m->routing, &o->routing, a->moe_layers, a->experts,
			   a->top_k, why, why_bytes);
}

int rank_model_start(struct rank_model *m, const struct sim_options *o,
		     const struct rank_part *part, char *why, size_t why_bytes)
{
	const struct runner_options r = {
		.shape = &m->shape,
		.routing = m->routing,
		.truth = m->truth,
		.gpu = o->gpu,
		.flavour = o->flavour,
		.backend = o->backend,
		.limits = { .max_seqs = o->max_seqs,
			    .max_tokens = o->max_tokens },
		.graphs = o->graphs,
		.seed = o->seed,
	};

	if (part->ranks > 1)
		rank_cut(&m->shape, part);
	return runner_open(&m->runner, &r, why, why_bytes);
}

int rank_model_close(struct rank_model *m)
{
	runner_close(m->runner);
	routing_free(m->routing);
	return truth_close(m->truth);
}
