#include "sim/server/truth.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/server/clock.h"

#define BUFFER_BYTES ((size_t)16 << 20)
#define LINE_BYTES 256u /* more than any line has */

struct buffer {
	char *text;
	size_t used;
};

struct truth {
	int fd;
	pthread_mutex_t fill_lock;  /* guards fill and lost */
	pthread_mutex_t write_lock; /* guards spare and the file */
	struct buffer fill, spare;
	uint64_t lost;
};

/* One line under construction. */
struct line {
	char text[LINE_BYTES];
	size_t used;
};

static void line_number(struct line *l, uint64_t v)
{
	char digits[20];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	l->text[l->used++] = '\t';
	while (n)
		l->text[l->used++] = digits[--n];
}

static void line_start(struct line *l, char kind)
{
	l->text[0] = kind;
	l->used = 1;
}

static void line_word(struct line *l, const char *word)
{
	size_t n = strlen(word);

	l->text[l->used++] = '\t';
	memcpy(l->text + l->used, word, n);
	l->used += n;
}

/* fill_lock is held. */
static void line_end(struct truth *t, struct line *l)
{
	l->text[l->used++] = '\n';
	if (t->fill.used + l->used > BUFFER_BYTES) {
		t->lost++;
		return;
	}
	memcpy(t->fill.text + t->fill.used, l->text, l->used);
	t->fill.used += l->used;
}

int truth_open(struct truth **out, const char *path)
{
	struct truth *t = calloc(1, sizeof(*t));
	int err = -ENOMEM;

	if (!t)
		return err;
	t->fd = -1;
	t->fill.text = malloc(BUFFER_BYTES);
	t->spare.text = malloc(BUFFER_BYTES);
	if (t->fill.text && t->spare.text) {
		t->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			     0644);
		err = t->fd < 0 ? -errno : 0;
	}
	if (err) {
		free(t->fill.text);
		free(t->spare.text);
		free(t);
		return err;
	}
	pthread_mutex_init(&t->fill_lock, NULL);
	pthread_mutex_init(&t->write_lock, NULL);
	*out = t;
	return 0;
}

static const char *const class_names[CLASSES] = {
	[CLASS_OTHER] = "other",
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = name,
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

static void add_class(struct truth *t, uint64_t step, unsigned klass,
		      const struct truth_class *n)
{
	struct line l;

	if (!n->calls)
		return;
	line_start(&l, 'C');
	line_number(&l, step);
	line_word(&l, class_names[klass]);
	line_number(&l, n->calls);
	line_number(&l, n->sum_ns);
	line_number(&l, n->union_ns);
	line_end(t, &l);
}

static void add_layer(struct truth *t, uint64_t step, unsigned layer,
		      const struct truth_layer *n)
{
	struct line l;

	line_start(&l, 'L');
	line_number(&l, step);
	line_number(&l, layer);
	line_number(&l, n->rows);
	line_number(&l, n->active);
	line_number(&l, n->single);
	line_number(&l, n->block_ns);
	line_number(&l, n->expert_ns);
	line_number(&l, n->before_ns);
	line_number(&l, (uint64_t)n->read_bytes);
	line_end(t, &l);
}

void truth_step(struct truth *t, const struct truth_step *s,
		const struct truth_layer *layer, unsigned layers)
{
	struct line l;

	if (!t)
		return;
	line_start(&l, 'S');
	line_number(&l, s->step);
	line_number(&l, s->start_ns);
	line_number(&l, s->end_ns);
	line_word(&l, s->prefill ? "prefill" : "decode");
	line_number(&l, s->tokens);
	line_number(&l, s->padded);
	line_number(&l, s->graph);
	pthread_mutex_lock(&t->fill_lock);
	line_end(t, &l);
	for (unsigned i = 0; i < layers; i++)
		add_layer(t, s->step, i, &layer[i]);
	for (unsigned c = 0; c < CLASSES; c++)
		add_class(t, s->step, c, &s->klass[c]);
	pthread_mutex_unlock(&t->fill_lock);
}

void truth_in_flight(struct truth *t, uint64_t time_ns, uint64_t in_flight,
		     uint64_t waiting)
{
	struct line l;

	if (!t)
		return;
	line_start(&l, 'F');
	line_number(&l, time_ns);
	line_number(&l, in_flight);
	line_number(&l, waiting);
	pthread_mutex_lock(&t->fill_lock);
	line_end(t, &l);
	pthread_mutex_unlock(&t->fill_lock);
}

void truth_totals(struct truth *t, uint64_t time_ns,
		  const struct truth_totals *n)
{
	struct line l;

	if (!t)
		return;
	line_start(&l, 'T');
	line_number(&l, time_ns);
	line_number(&l, n->started);
	line_number(&l, n->completed);
	line_number(&l, n->aborted);
	line_number(&l, n->events);
	line_number(&l, n->failed);
	pthread_mutex_lock(&t->fill_lock);
	line_end(t, &l);
	pthread_mutex_unlock(&t->fill_lock);
}

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, text, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int truth_flush(struct truth *t)
{
	struct buffer full;
	uint64_t lost;
	int err;

	if (!t)
		return 0;
	pthread_mutex_lock(&t->write_lock);
	pthread_mutex_lock(&t->fill_lock);
	full = t->fill;
	t->fill = (struct buffer){ .text = t->spare.text };
	lost = t->lost;
	t->lost = 0;
	if (lost) {
		struct line l;

		line_start(&l, 'D');
		line_number(&l, clock_ns());
		line_number(&l, lost);
		line_end(t, &l);
	}
	pthread_mutex_unlock(&t->fill_lock);
	err = write_all(t->fd, full.text, full.used);
	t->spare = full;
	pthread_mutex_unlock(&t->write_lock);
	return err;
}

int truth_close(struct truth *t)
{
	int err;

	if (!t)
		return 0;
	err = truth_flush(t);
	if (close(t->fd) && !err)
		err = -errno;
	pthread_mutex_destroy(&t->fill_lock);
	pthread_mutex_destroy(&t->write_lock);
	free(t->fill.text);
	free(t->spare.text);
	free(t);
	return err;
}
