#include "sim/server/shape.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "target/model_config.h"
#include "wire/record.h"

#define HEAD_WIDTH 2.0 /* bytes of a weight of head and router: bf16 */
#define QKV_SHARE 0.6
#define NUMBER_MAX (1u << 24)

void shape_split(struct shape *s, unsigned mlp_width)
{
	const struct arch *a = &s->arch;
	double width = a->dense_params > 0 ? a->dense_bytes / a->dense_params
					   : HEAD_WIDTH;
	double moe_layers = a->moe_layers, attention;

	s->dense_layers = a->layers - a->moe_layers;
	s->head_bytes = HEAD_WIDTH * s->vocab * a->hidden;
	s->router_bytes = HEAD_WIDTH * a->experts * a->hidden;
	s->shared_bytes = a->shared_experts * a->expert_bytes;
	s->mlp_bytes = s->dense_layers ? 3 * width * a->hidden * mlp_width : 0;
	attention = a->dense_bytes - s->head_bytes -
		    moe_layers * (s->router_bytes + s->shared_bytes) -
		    s->dense_layers * s->mlp_bytes;
	attention = fmax(attention, 0) / a->layers;
	s->qkv_bytes = QKV_SHARE * attention;
	s->output_bytes = (1 - QKV_SHARE) * attention;
	s->kv_bytes = a->kv_bytes_per_token / a->layers;
	s->total_bytes =
		a->dense_bytes + moe_layers * a->experts * a->expert_bytes;
	s->experts_from = 0;
	s->experts_to = a->experts;
	s->first_matmul = a->expert_matrices == 2 ? 0.5 : 2.0 / 3;
}

/* A positive number of the text part of a config, or fallback. */
static unsigned config_number(const json_t *root, const char *key,
			      unsigned fallback)
{
	const json_t *text = json_object_get(root, "text_config");
	const json_t *v = json_object_get(text, key);

	if (!v)
		v = json_object_get(root, key);
	if (!json_is_integer(v) || json_integer_value(v) <= 0 ||
	    json_integer_value(v) > NUMBER_MAX)
		return fallback;
	return (unsigned)json_integer_value(v);
}

int shape_read(const char *path, struct shape *out, char *why, size_t why_bytes)
{
	struct shape s = { 0 };
	json_error_t bad;
	json_t *root;
	char inner[256] = "";
	int err = model_config_read(path, &s.arch, inner, sizeof(inner));

	if (err) {
		snprintf(why, why_bytes, "%s: %s", path, inner);
		return err;
	}
	if (!arch_is_moe(&s.arch) || s.arch.experts > EXPERTS_MAX ||
	    s.arch.moe_layers > LAYERS_MAX || !s.arch.moe_layers) {
		snprintf(why, why_bytes,
			 "%s: not a mixture of experts that can be simulated",
			 path);
		return -ENOTSUP;
	}
	root = json_load_file(path, 0, &bad);
	if (!root) {
		snprintf(why, why_bytes, "%s: %s", path, bad.text);
		return -EINVAL;
	}
	snprintf(s.path, sizeof(s.path), "%s", path);
	s.vocab = config_number(root, "vocab_size", 32000);
	s.max_model_len = config_number(root, "max_position_embeddings", 32768);
	shape_split(&s, config_number(root, "intermediate_size",
				      s.arch.expert_inter));
	json_decref(root);
	*out = s;
	return 0;
}
