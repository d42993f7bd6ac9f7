#include "exporter/http_auth.h"

#include <crypt.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CACHE_ENTRIES 128u
#define QUEUE_MAX 8u
#define DIGEST_BYTES 32u
#define KEY_BYTES 32u
#define WORD_BYTES_MAX 512u
#define HASH_BYTES_MAX 64u
#define NICE 10

struct cached {
	uint8_t digest[DIGEST_BYTES];
	bool used, right;
	uint64_t asked; /* a counter, for the least recently asked */
};

struct question {
	uint8_t digest[DIGEST_BYTES];
	char password[WORD_BYTES_MAX], hash[HASH_BYTES_MAX];
	bool known; /* the name is; else the answer is no */
	void *arg;
};

struct auth {
	void (*done)(void *arg, bool right);
	void (*tick)(void *arg);
	void *tick_arg;
	uint8_t key[KEY_BYTES];
	pthread_t thread;
	pthread_mutex_t lock; /* over all that follows */
	pthread_cond_t work;
	bool stop;
	struct cached cache[CACHE_ENTRIES];
	uint64_t asked;
	struct question queue[QUEUE_MAX]; /* [0] is being worked on */
	unsigned n_queue;
};

/* ---- Basic -------------------------------------------------------------- */

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Bytes written, or -1. */
static long base64_decode(const char *s, char *out, size_t room)
{
	size_t n = strlen(s), used = 0;
	unsigned bits = 0, have = 0;

	while (n && s[n - 1] == '=')
		n--;
	for (size_t i = 0; i < n; i++) {
		int v = base64_value(s[i]);

		if (v < 0 || used >= room)
			return -1;
		bits = bits << 6 | (unsigned)v;
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		out[used++] = (char)(bits >> have & 0xff);
	}
	return (long)used;
}

bool auth_decode(const char *header, char *room, size_t room_bytes,
		 const char **name, const char **password)
{
	char *colon;
	long n;

	if (!header || strncasecmp(header, "Basic ", 6) != 0 || !room_bytes)
		return false;
	header += 6;
	header += strspn(header, " ");
	n = base64_decode(header, room, room_bytes - 1);
	if (n < 0 || memchr(room, 0, (size_t)n))
		return false;
	room[n] = '\0';
	colon = strchr(room, ':');
	if (!colon)
		return false;
	*colon = '\0';
	*name = room;
	*password = colon + 1;
	return true;
}

/* ---- comparing ---------------------------------------------------------- */

/* In time that does not tell where they differ. */
static bool equal(const void *a, const void *b, size_t n)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t differ = 0;

	for (size_t i = 0; i < n; i++)
		differ |= x[i] ^ y[i];
	return differ == 0;
}

static bool password_matches(const char *password, const char *hash)
{
	struct crypt_data *data = calloc(1, sizeof(*data));
	const char *got = data ? crypt_r(password, hash, data) : NULL;
	bool same = got && strlen(got) == strlen(hash) &&
		    equal(got, hash, strlen(hash));

	if (data)
		explicit_bzero(data, sizeof(*data));
	free(data);
	return same;
}

/* All users are looked at, whichever it is. */
static const char *find_hash(const struct web_config *c, const char *name)
{
	size_t n = strlen(name);
	const char *hash = NULL;

	for (unsigned i = 0; i < c->n_users; i++)
		if (strlen(c->users[i].name) == n &&
		    equal(c->users[i].name, name, n))
			hash = c->users[i].value;
	return hash;
}

static int digest(const struct auth *a, const char *name, const char *password,
		  const char *hash, uint8_t out[DIGEST_BYTES])
{
	const char *const parts[] = { name, password, hash };
	gnutls_hmac_hd_t h;

	if (gnutls_hmac_init(&h, GNUTLS_MAC_SHA256, a->key, KEY_BYTES))
		return -ENOMEM;
	for (unsigned i = 0; i < 3; i++) /* with its NUL, which separates */
		gnutls_hmac(h, parts[i], strlen(parts[i]) + 1);
	gnutls_hmac_deinit(h, out);
	return 0;
}

/* ---- the cache; locked -------------------------------------------------- */

static struct cached *find(struct auth *a, const uint8_t *d)
{
	for (unsigned i = 0; i < CACHE_ENTRIES; i++)
		if (a->cache[i].used &&
		    equal(a->cache[i].digest, d, DIGEST_BYTES))
			return &a->cache[i];
	return NULL;
}

/* Wrong ones make room first, so that guessing does not drive out those who
 * know. */
static bool leaves_before(const struct cached *x, const struct cached *y)
{
	if (x->used != y->used)
		return !x->used;
	if (x->right != y->right)
		return !x->right;
	return x->asked < y->asked;
}

static void remember(struct auth *a, const uint8_t *d, bool right)
{
	struct cached *to = &a->cache[0];

	for (unsigned i = 1; i < CACHE_ENTRIES; i++)
		if (leaves_before(&a->cache[i], to))
			to = &a->cache[i];
	*to = (struct cached){ .used = true,
			       .right = right,
			       .asked = ++a->asked };
	memcpy(to->digest, d, DIGEST_BYTES);
}

/* ---- asking ------------------------------------------------------------- */

static enum verdict ask(struct auth *a, const uint8_t *d, const char *hash,
			bool known_name, const char *password, void *arg)
{
	struct cached *known = find(a, d);
	struct question *q;

	if (known) {
		known->asked = ++a->asked;
		return known->right ? VERDICT_YES : VERDICT_NO;
	}
	if (!arg)
		return VERDICT_LATER;
	if (a->n_queue == QUEUE_MAX || a->stop)
		return VERDICT_BUSY;
	q = &a->queue[a->n_queue++];
	*q = (struct question){ .known = known_name, .arg = arg };
	memcpy(q->digest, d, DIGEST_BYTES);
	snprintf(q->password, sizeof(q->password), "%s", password);
	snprintf(q->hash, sizeof(q->hash), "%s", hash);
	pthread_cond_signal(&a->work);
	return VERDICT_LATER;
}

enum verdict auth_check(struct auth *a, const struct web_config *c,
			const char *header, void *arg)
{
	char room[2 * WORD_BYTES_MAX];
	const char *name, *password, *hash;
	uint8_t d[DIGEST_BYTES];
	enum verdict v;

	if (!c->n_users ||
	    !auth_decode(header, room, sizeof(room), &name, &password) ||
	    strlen(password) >= WORD_BYTES_MAX)
		return VERDICT_NO;
	hash = find_hash(c, name);
	if (digest(a, name, password, hash ? hash : "", d))
		return VERDICT_BUSY;
	pthread_mutex_lock(&a->lock);
	/* an unknown name takes the time of the first one */
	v = ask(a, d, hash ? hash : c->users[0].value, hash != NULL, password,
		arg);
	pthread_mutex_unlock(&a->lock);
	explicit_bzero(room, sizeof(room));
	return v;
}

/* ---- the thread --------------------------------------------------------- */

/* Locked on entry and at the end. */
static void answer(struct auth *a)
{
	struct question q = a->queue[0];
	const struct cached *known = find(a, q.digest);
	bool right = known && known->right;

	if (!known) {
		pthread_mutex_unlock(&a->lock);
		right = password_matches(q.password, q.hash) && q.known;
		pthread_mutex_lock(&a->lock);
		remember(a, q.digest, right);
	}
	a->n_queue--;
	memmove(a->queue, a->queue + 1, a->n_queue * sizeof(a->queue[0]));
	explicit_bzero(&a->queue[a->n_queue], sizeof(a->queue[0]));
	pthread_mutex_unlock(&a->lock);
	a->done(q.arg, right);
	explicit_bzero(&q, sizeof(q));
	pthread_mutex_lock(&a->lock);
}

static bool wait_a_second(struct auth *a, struct timespec *next)
{
	if (a->n_queue || a->stop)
		return false;
	return pthread_cond_timedwait(&a->work, &a->lock, next) == ETIMEDOUT;
}

static void *work(void *arg)
{
	struct auth *a = arg;
	struct timespec next, now;

	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
	clock_gettime(CLOCK_MONOTONIC, &next);
	pthread_mutex_lock(&a->lock);
	while (!a->stop) {
		wait_a_second(a, &next);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec >= next.tv_sec) {
			next = now;
			next.tv_sec++;
			pthread_mutex_unlock(&a->lock);
			a->tick(a->tick_arg);
			pthread_mutex_lock(&a->lock);
		}
		if (a->n_queue && !a->stop)
			answer(a);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

int auth_new(struct auth **out, void (*done)(void *arg, bool right),
	     void (*tick)(void *arg), void *tick_arg)
{
	struct auth *a = calloc(1, sizeof(*a));
	pthread_condattr_t attr;
	int err = a ? 0 : -ENOMEM;

	if (!err && gnutls_rnd(GNUTLS_RND_KEY, a->key, KEY_BYTES))
		err = -EIO;
	if (err) {
		free(a);
		return err;
	}
	a->done = done;
	a->tick = tick;
	a->tick_arg = tick_arg;
	pthread_mutex_init(&a->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->work, &attr);
	pthread_condattr_destroy(&attr);
	err = -pthread_create(&a->thread, NULL, work, a);
	if (err) {
		free(a);
		return err;
	}
	*out = a;
	return 0;
}

void auth_stop(struct auth *a)
{
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->work);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	for (unsigned i = 0; i < a->n_queue; i++)
		a->done(a->queue[i].arg, false);
	a->n_queue = 0;
}

void auth_free(struct auth *a)
{
	if (!a)
		return;
	pthread_cond_destroy(&a->work);
	pthread_mutex_destroy(&a->lock);
	explicit_bzero(a, sizeof(*a));
	free(a);
}
