#include "cupti/classify.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS (2 * NAMES_MAX)

static const struct {
	const char *regex;
	enum kernel_group group;
} classes[CLASSES] = {
	[CLASS_OTHER] = { NULL, GROUP_OTHER },
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = { regex, group },
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

struct kernel_names {
	regex_t regex[CLASSES];
	bool compiled[CLASSES];
	struct kernel_name entry[NAMES_MAX + 1];
	uint16_t slot[SLOTS]; /* id + 1 */
	size_t count;
};

bool kernel_class_is_anchor(unsigned klass)
{
	switch (klass) {
	case CLASS_TOPK_SGL_ROUTER:
	case CLASS_TOPK_GATING:
	case CLASS_TOPK_DSV4HASH:
	case CLASS_TOPK_MOETOPK:
	case CLASS_TOPK_GROUPED_SMALL:
	case CLASS_TOPK_GROUPED:
	case CLASS_TOPK_SINGLE_BLOCK:
	case CLASS_TOPK_SINGLE_WARP:
	case CLASS_TOPK_SGL_GATE:
	case CLASS_TOPK_FI_DSV3:
	case CLASS_TOPK_TK:
	case CLASS_TOPK_TORCH:
	case CLASS_TOPK_OTHER:
	case CLASS_ROUTE_TRTLLM:
		return true;
	default:
		return false;
	}
}

enum kernel_group kernel_class_group(unsigned klass)
{
	return klass < CLASSES ? classes[klass].group : GROUP_OTHER;
}

bool kernel_class_closes(unsigned klass)
{
	enum kernel_group group = kernel_class_group(klass);

	switch (klass) {
	case CLASS_TOPK_PREP:
	case CLASS_TOPK_TORCH:
	case CLASS_ROUTER_GEMM:
	case CLASS_SORT_CUB:
	case CLASS_ACT_MOE:
		return false;
	case CLASS_A2A_DEEPEP_LL:
	case CLASS_A2A_DEEPEP_HT:
	case CLASS_A2A_DEEPEP_V2:
	case CLASS_A2A_FLASHINFER:
	case CLASS_A2A_OTHER:
		return true;
	default:
		return group == GROUP_EXPERT || group == GROUP_ROUTE;
	}
}

struct kernel_names *kernel_names_new(void)
{
	struct kernel_names *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->entry[NAMES_MAX] = (struct kernel_name){ .id = NAMES_MAX };
	for (unsigned c = 1; c < CLASSES; c++) {
		if (regcomp(&n->regex[c], classes[c].regex,
			    REG_EXTENDED | REG_NOSUB)) {
			kernel_names_free(n);
			return NULL;
		}
		n->compiled[c] = true;
	}
	return n;
}

void kernel_names_free(struct kernel_names *n)
{
	if (!n)
		return;
	for (unsigned c = 0; c < CLASSES; c++)
		if (n->compiled[c])
			regfree(&n->regex[c]);
	free(n);
}

static uint8_t classify(struct kernel_names *n, const char *name)
{
	for (unsigned c = 1; c < CLASSES; c++)
		if (regexec(&n->regex[c], name, 0, NULL, 0) == 0)
			return (uint8_t)c;
	return CLASS_OTHER;
}

static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * 0x9fb21c651e98df25ull;
	return h ^ (h >> 32);
}

/* Eight bytes a turn: mangled template names have hundreds of characters. */
static uint64_t hash_name(const char *name)
{
	size_t len = strnlen(name, NAME_BYTES_MAX);
	uint64_t h = 0xcbf29ce484222325ull ^ len;
	uint64_t word;

	for (; len >= 8; len -= 8, name += 8) {
		memcpy(&word, name, 8);
		h = mix(h, word);
	}
	word = 0;
	memcpy(&word, name, len);
	return mix(h, word);
}

struct kernel_name *kernel_names_get(struct kernel_names *n, const char *name)
{
	uint64_t hash = hash_name(name);
	size_t i = hash % SLOTS;
	struct kernel_name *e;

	for (; n->slot[i]; i = (i + 1) % SLOTS) {
		e = &n->entry[n->slot[i] - 1];
		if (e->hash == hash)
			return e;
	}
	if (n->count == NAMES_MAX)
		return &n->entry[NAMES_MAX];
	e = &n->entry[n->count];
	*e = (struct kernel_name){
		.hash = hash,
		.id = (uint16_t)n->count,
		.klass = classify(n, name),
	};
	n->slot[i] = (uint16_t)++n->count;
	return e;
}

struct kernel_name *kernel_names_at(struct kernel_names *n, uint16_t id)
{
	return &n->entry[id < NAMES_MAX ? id : NAMES_MAX];
}

size_t kernel_names_count(const struct kernel_names *n)
{
	return n->count;
}
