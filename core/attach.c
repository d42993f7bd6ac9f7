#include "core/attach.h"
#include "core/privileges.h"
#include "core/worker.h"
#include "target/proc.h"
#include "wire/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_EVERY_NS (1 * NS_PER_S)
#define PAUSE_MIN_NS (1 * NS_PER_S)
#define PAUSE_MAX_NS (32 * NS_PER_S)
#define IMAGE_BYTES_MAX (64u << 20)
#define WISH_NS (5 * NS_PER_S) /* how long a wish holds */

struct slot {
	pid_t pid; /* 0: free */
	uint64_t start_ticks;
	struct attach_status status;
	uint64_t due_ns, pause_ns;
	uint64_t wanted_ns; /* when it was last asked for */
};

/* Shared with the thread. */
struct board {
	pthread_mutex_t lock;
	struct slot slots[ATTACH_PROCESSES_MAX];
	unsigned ended;
	/* set before the thread starts */
	attach_fn *fn;
	struct inject_image image;
	char data[];
};

struct attach {
	struct board *board;
	struct worker *worker; /* NULL until the first wish */
};

static void board_free(void *arg)
{
	struct board *b = arg;

	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* ---- the thread -------------------------------------------------------- */

static bool may_pass(enum inject_refusal r)
{
	switch (r) {
	case INJECT_BUSY:
	case INJECT_STOPPED:
	case INJECT_TRACED:
	case INJECT_TIMEOUT:
		return true;
	default:
		return false;
	}
}

static struct slot *next_due(struct board *b, uint64_t now_ns)
{
	for (unsigned i = 0; i < ATTACH_PROCESSES_MAX; i++) {
		struct slot *s = &b->slots[i];

		if (s->pid && s->status.state == ATTACH_WAITING &&
		    now_ns >= s->due_ns && now_ns < s->wanted_ns + WISH_NS)
			return s;
	}
	return NULL;
}

/* With the lock held. */
static void settle(struct slot *s, const struct inject_report *r,
		   const char *ring, uint64_t now_ns)
{
	struct attach_status *t = &s->status;

	t->tries++;
	t->ended_ns = now_ns;
	t->report = *r;
	memcpy(t->ring, ring, sizeof(t->ring));
	s->due_ns = now_ns + s->pause_ns;
	if (s->pause_ns < PAUSE_MAX_NS)
		s->pause_ns *= 2;
	if (r->refusal == INJECT_OK || r->refusal == INJECT_PRESENT)
		t->state = ATTACH_DONE;
	else if (may_pass(r->refusal))
		t->state = ATTACH_WAITING;
	else
		t->state = ATTACH_REFUSED;
}

/* Inject, unless the pid is another process by now. */
static void try_one(struct board *b, pid_t pid, uint64_t start_ticks,
		    struct inject_report *r, struct proc_fds *fds)
{
	struct proc_stat now;

	*r = (struct inject_report){ .refusal = INJECT_NO_PROCESS };
	*fds = (struct proc_fds){ 0 };
	if (proc_stat_read(pid, &now) || now.start_ticks != start_ticks)
		return;
	(void)b->fn(pid, &b->image, r);
	if (r->refusal == INJECT_OK || r->refusal == INJECT_PRESENT)
		(void)proc_fds_read(pid, fds, NULL, NULL);
}

/* One process; false: none was due. */
static bool attach_one(struct board *b)
{
	struct inject_report r;
	struct proc_fds fds;
	uint64_t start = 0;
	struct slot *s;
	pid_t pid = 0;

	pthread_mutex_lock(&b->lock);
	s = next_due(b, clock_now_ns());
	if (s) {
		s->status.state = ATTACH_RUNNING; /* nobody takes the slot */
		pid = s->pid;
		start = s->start_ticks;
	}
	pthread_mutex_unlock(&b->lock);
	if (!s)
		return false;
	try_one(b, pid, start, &r, &fds);
	pthread_mutex_lock(&b->lock);
	settle(s, &r, fds.ring, clock_now_ns());
	b->ended++;
	pthread_mutex_unlock(&b->lock);
	return true;
}

static void thread_step(void *arg)
{
	while (attach_one(arg))
		;
}

static void thread_end(void *arg)
{
	(void)arg;
}

static const struct worker_job job = { .privileges = PRIVILEGES_ATTACH,
				       .step = thread_step,
				       .end = thread_end,
				       .free = board_free };

/* ---- the one who asks -------------------------------------------------- */

static int read_whole(int fd, struct board **out)
{
	struct stat st;
	struct board *b;
	size_t n = 0;
	ssize_t got;

	if (fstat(fd, &st))
		return -errno;
	if (privileges_elevated() && !privileges_trust(&st))
		return -EPERM;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    st.st_size > (off_t)IMAGE_BYTES_MAX)
		return -EINVAL;
	b = calloc(1, sizeof(*b) + (size_t)st.st_size);
	if (!b)
		return -ENOMEM;
	while (n < (size_t)st.st_size &&
	       (got = read(fd, b->data + n, (size_t)st.st_size - n)) > 0)
		n += (size_t)got;
	if (n < (size_t)st.st_size) {
		free(b);
		return -EIO;
	}
	b->image = (struct inject_image){ .data = b->data, .bytes = n };
	*out = b;
	return 0;
}

int attach_new(struct attach **out, const char *agent_path, attach_fn *fn)
{
	int fd = open(agent_path, O_RDONLY | O_CLOEXEC);
	struct board *b = NULL;
	struct attach *a;
	int err = fd < 0 ? -errno : read_whole(fd, &b);

	if (fd >= 0)
		close(fd);
	if (!b)
		return err ? err : -EIO;
	a = calloc(1, sizeof(*a));
	if (!a) {
		free(b);
		return -ENOMEM;
	}
	pthread_mutex_init(&b->lock, NULL);
	b->fn = fn;
	a->board = b;
	*out = a;
	return 0;
}

static struct slot *find(struct board *b, pid_t pid, uint64_t start_ticks)
{
	for (unsigned i = 0; i < ATTACH_PROCESSES_MAX; i++)
		if (b->slots[i].pid == pid &&
		    b->slots[i].start_ticks == start_ticks)
			return &b->slots[i];
	return NULL;
}

/* A free slot, else the one that nobody has asked for the longest. */
static struct slot *make_room(struct board *b)
{
	struct slot *oldest = NULL;

	for (unsigned i = 0; i < ATTACH_PROCESSES_MAX; i++) {
		struct slot *s = &b->slots[i];

		if (!s->pid)
			return s;
		if (s->status.state != ATTACH_RUNNING &&
		    (!oldest || s->wanted_ns < oldest->wanted_ns))
			oldest = s;
	}
	return oldest;
}

void attach_want(struct attach *a, pid_t pid, uint64_t start_ticks,
		 uint64_t now_ns)
{
	struct board *b = a->board;
	struct slot *s;
	bool wake = false;

	pthread_mutex_lock(&b->lock);
	s = find(b, pid, start_ticks);
	if (!s && (s = make_room(b))) {
		*s = (struct slot){ .pid = pid,
				    .start_ticks = start_ticks,
				    .status.state = ATTACH_WAITING,
				    .pause_ns = PAUSE_MIN_NS };
		wake = true;
	} else if (s && s->status.state == ATTACH_DONE && now_ns >= s->due_ns) {
		s->status.state = ATTACH_WAITING;
		wake = true;
	}
	if (s)
		s->wanted_ns = now_ns;
	pthread_mutex_unlock(&b->lock);
	if (!a->worker && worker_start(&a->worker, LOOK_EVERY_NS, &job, b))
		return; /* asked for again in a second */
	if (wake)
		worker_wake(a->worker);
}

void attach_look(const struct attach *a, pid_t pid, uint64_t start_ticks,
		 struct attach_status *out)
{
	struct slot *s;

	pthread_mutex_lock(&a->board->lock);
	s = find(a->board, pid, start_ticks);
	*out = s ? s->status : (struct attach_status){ 0 };
	pthread_mutex_unlock(&a->board->lock);
}

unsigned attach_ended(const struct attach *a)
{
	unsigned n;

	pthread_mutex_lock(&a->board->lock);
	n = a->board->ended;
	pthread_mutex_unlock(&a->board->lock);
	return n;
}

void attach_free(struct attach *a)
{
	if (!a)
		return;
	if (a->worker)
		worker_stop(
			a->worker); /* the last of the two frees the board */
	else
		board_free(a->board);
	free(a);
}
