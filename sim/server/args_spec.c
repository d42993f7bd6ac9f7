#include "sim/server/args_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/server/kernels.h"

#define SOMEWHERE 0x7d1000000000ull
#define BLOCK_M 16u
#define TEXT_BYTES 512

static const char *const numbers[SPEC_NUMBERS] = {
	[NUMBER_NULL] = "null",
	[NUMBER_ZERO] = "0",
	[NUMBER_ONE] = "1",
	[NUMBER_MINUS_ONE] = "-1",
	[NUMBER_ROWS] = "rows",
	[NUMBER_K] = "k",
	[NUMBER_WIDE_K] = "k+S",
	[NUMBER_ZERO_K] = "k+Z",
	[NUMBER_EXPERTS] = "E",
	[NUMBER_EXPERTS_1] = "E+1",
	[NUMBER_WIDE] = "E+Z",
	[NUMBER_PHYSICAL] = "E+R",
	[NUMBER_WIDE_PAIRS] = "pairs+S",
	[NUMBER_ZERO_PAIRS] = "pairs+Z",
	[NUMBER_PAIRS] = "pairs",
	[NUMBER_BLOCK] = "block",
	[NUMBER_TILE] = "tile",
	[NUMBER_HIDDEN] = "hidden",
	[NUMBER_SOME] = "some",
};

static uint64_t number(const struct spec_call *c, unsigned which)
{
	switch (which) {
	case NUMBER_ONE:
		return 1;
	case NUMBER_MINUS_ONE:
		return UINT64_MAX;
	case NUMBER_ROWS:
		return c->rows;
	case NUMBER_K:
		return c->k;
	case NUMBER_WIDE_K:
		return c->k + PLACE_FUSED;
	case NUMBER_ZERO_K:
		return c->k + PLACE_ZERO_IDS;
	case NUMBER_EXPERTS:
		return c->experts;
	case NUMBER_EXPERTS_1:
		return c->experts + 1;
	case NUMBER_WIDE:
		return c->experts + PLACE_ZERO_EXPERTS;
	case NUMBER_PHYSICAL:
		return places_physical(c->experts);
	case NUMBER_PAIRS:
		return (uint64_t)c->rows * c->k;
	case NUMBER_WIDE_PAIRS:
		return (uint64_t)c->rows * (c->k + PLACE_FUSED);
	case NUMBER_ZERO_PAIRS:
		return (uint64_t)c->rows * (c->k + PLACE_ZERO_IDS);
	case NUMBER_BLOCK:
		return BLOCK_M;
	case NUMBER_TILE:
		return PLACE_TILE;
	case NUMBER_HIDDEN:
		return c->hidden;
	case NUMBER_SOME:
		return SOMEWHERE;
	default:
		return 0;
	}
}

static uint64_t value(const struct spec_call *c, const struct spec_item *i)
{
	return i->pointer ? c->place[i->value] : number(c, i->value);
}

static bool is_dropped(const struct spec_call *c, const struct spec_item *i)
{
	return i->triton && value(c, i) == 1;
}

/* ---- text ------------------------------------------------------------------ */

static int take_value(struct spec_item *i, const char *word)
{
	int place = places_find(word);

	if (place >= 0) {
		i->pointer = true;
		i->value = (uint8_t)place;
		return i->bytes == 8 ? 0 : -EINVAL;
	}
	for (unsigned v = 0; v < SPEC_NUMBERS; v++)
		if (!strcmp(numbers[v], word)) {
			i->value = (uint8_t)v;
			return i->store ? -EINVAL : 0;
		}
	return -EINVAL;
}

static int take_item(struct args_spec *s, char *word)
{
	struct spec_item *i = &s->item[s->n];
	char *at = strchr(word, ':'), *end;

	if (s->n == SPEC_ITEMS_MAX)
		return -EINVAL;
	*i = (struct spec_item){ 0 };
	if ((at != NULL) != (s->struct_bytes != 0))
		return -EINVAL;
	if (at) {
		*at++ = 0;
		i->offset = (uint16_t)strtoul(at, &end, 10);
		if (*end)
			return -EINVAL;
	}
	i->triton = *word == 't';
	i->bytes = i->triton ? 4 : (uint8_t)(*word - '0');
	if (!i->triton && !strchr("8421", *word))
		return -EINVAL;
	if (s->struct_bytes && i->offset + i->bytes > s->struct_bytes)
		return -EINVAL;
	word++;
	i->store = *word == '>';
	s->n++;
	return take_value(i, word + i->store);
}

static int take_word(struct args_spec *s, char *word)
{
	char pointer[] = "8null", *end;

	if (*word == 's' && !s->n && !s->struct_bytes &&
	    strcmp(word, "scratch")) {
		s->struct_bytes = (uint16_t)strtoul(word + 1, &end, 10);
		return !*end && s->struct_bytes &&
				       s->struct_bytes <= SPEC_STRUCT_MAX
			       ? 0
			       : -EINVAL;
	}
	if (strcmp(word, "scratch"))
		return take_item(s, word);
	return take_item(s, pointer) || take_item(s, strcpy(pointer, "8null"))
		       ? -EINVAL
		       : 0;
}

int spec_parse(const char *text, struct args_spec *out)
{
	char copy[TEXT_BYTES], *save;

	*out = (struct args_spec){ 0 };
	if (strlen(text) >= sizeof(copy))
		return -EINVAL;
	strcpy(copy, text);
	for (char *w = strtok_r(copy, ",", &save); w;
	     w = strtok_r(NULL, ",", &save))
		if (take_word(out, w))
			return -EINVAL;
	return out->n ? 0 : -EINVAL;
}

/* ---- arguments --------------------------------------------------------------- */

void spec_args(const struct args_spec *s, const struct spec_call *c,
	       struct kernel_args *out)
{
	for (unsigned i = 0; i < s->n; i++) {
		const struct spec_item *t = &s->item[i];
		uint64_t v = value(c, t);

		if (is_dropped(c, t))
			continue;
		if (t->bytes == 8)
			args_u64(out, v);
		else if (t->bytes == 4)
			args_u32(out, (uint32_t)v);
		else
			args_bool(out, v != 0);
	}
}

void spec_struct(const struct args_spec *s, const struct spec_call *c,
		 uint8_t *out)
{
	memset(out, 0, s->struct_bytes);
	for (unsigned i = 0; i < s->n; i++) {
		uint64_t v = value(c, &s->item[i]);

		memcpy(out + s->item[i].offset, &v, s->item[i].bytes);
	}
}

void spec_stores(const struct args_spec *s, const struct spec_call *c,
		 void *const *params,
		 void (*fn)(void *arg, enum place what, uint64_t address),
		 void *arg)
{
	unsigned at = 0;

	for (unsigned i = 0; i < s->n; i++) {
		const struct spec_item *t = &s->item[i];
		uint64_t address;

		if (is_dropped(c, t))
			continue;
		if (t->store) {
			memcpy(&address,
			       s->struct_bytes
				       ? (const uint8_t *)params[0] + t->offset
				       : params[at],
			       sizeof(address));
			fn(arg, (enum place)t->value, address);
		}
		at++;
	}
}
