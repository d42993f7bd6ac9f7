#include "sim/server/sched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sched_init(struct sched *s, const struct sched_limits *limits)
{
	*s = (struct sched){ .limits = *limits };
	s->waiting_end = &s->waiting;
	if (!limits->max_seqs || !limits->max_tokens)
		return -EINVAL;
	s->running = calloc(limits->max_seqs, sizeof(struct seq *));
	s->items = calloc(limits->max_seqs, sizeof(*s->items));
	if (s->running && s->items)
		return 0;
	sched_fini(s);
	return -ENOMEM;
}

void sched_fini(struct sched *s)
{
	free(s->running);
	free(s->items);
	s->running = NULL;
	s->items = NULL;
}

void sched_add(struct sched *s, struct seq *q)
{
	q->computed = q->generated = 0;
	q->next = NULL;
	*s->waiting_end = q;
	s->waiting_end = &q->next;
	s->waiting_n++;
}

void sched_reap(struct sched *s, void (*gone)(void *arg, struct seq *q),
		void *arg)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < s->running_n; i++) {
		struct seq *q = s->running[i];

		if (atomic_load_explicit(&q->abort, memory_order_acquire))
			gone(arg, q);
		else
			s->running[kept++] = q;
	}
	s->running_n = kept;

	s->waiting_end = &s->waiting;
	for (struct seq *q = s->waiting, *next; q; q = next) {
		next = q->next;
		if (atomic_load_explicit(&q->abort, memory_order_acquire)) {
			s->waiting_n--;
			gone(arg, q);
			continue;
		}
		*s->waiting_end = q;
		s->waiting_end = &q->next;
	}
	*s->waiting_end = NULL;
}

/* The tokens that q could compute now: the rest of its prompt, or one. */
static uint32_t tokens_wanted(const struct seq *q)
{
	if (q->computed < q->prompt_tokens)
		return q->prompt_tokens - q->computed;
	return 1;
}

static void plan_item(struct sched *s, struct sched_step *out, struct seq *q)
{
	uint32_t count = tokens_wanted(q);
	struct sched_item *item = &s->items[out->items_n];

	if (count > s->limits.max_tokens - out->tokens)
		count = s->limits.max_tokens - out->tokens;
	if (!count)
		return;
	*item = (struct sched_item){
		.seq = q,
		.first = q->computed,
		.count = count,
		.samples = q->computed + count >= q->prompt_tokens,
	};
	if (q->computed < q->prompt_tokens)
		out->prefill = true;
	out->tokens += count;
	out->items_n++;
}

void sched_plan(struct sched *s, struct sched_step *out)
{
	*out = (struct sched_step){ .items = s->items };
	for (unsigned i = 0; i < s->running_n; i++)
		plan_item(s, out, s->running[i]);
	while (s->waiting && s->running_n < s->limits.max_seqs &&
	       out->tokens < s->limits.max_tokens) {
		struct seq *q = s->waiting;

		s->waiting = q->next;
		if (!s->waiting)
			s->waiting_end = &s->waiting;
		s->waiting_n--;
		s->running[s->running_n++] = q;
		plan_item(s, out, q);
	}
}

void sched_commit(struct sched *s, const struct sched_step *step,
		  void (*token)(void *arg, struct seq *q, bool last), void *arg)
{
	unsigned kept = 0, item = 0;

	/* Items are in the order of the running list. */
	for (unsigned i = 0; i < s->running_n; i++) {
		struct seq *q = s->running[i];
		const struct sched_item *it = &step->items[item];
		bool last = false;

		if (item < step->items_n && it->seq == q) {
			item++;
			q->computed += it->count;
			q->generated += it->samples;
			last = q->generated >= q->max_tokens;
		} else {
			it = NULL;
		}
		if (!last)
			s->running[kept++] = q;
		if (it && it->samples)
			token(arg, q, last);
	}
	s->running_n = kept;
}

unsigned sched_graph_size(unsigned i)
{
	if (i < 3)
		return 1u << i;
	i -= 2;
	if (i * 8 < 256)
		return i * 8;
	i = 256 + (i - 32) * 16;
	return i <= 512 ? i : 0;
}

unsigned sched_graph_pad(unsigned n, unsigned limit)
{
	for (unsigned i = 0, size; (size = sched_graph_size(i)); i++)
		if (size >= n)
			return size <= limit ? size : 0;
	return 0;
}

bool sched_skips_align(unsigned tokens, unsigned top_k, unsigned experts)
{
	return (uint64_t)tokens * top_k * 4 <= experts;
}
