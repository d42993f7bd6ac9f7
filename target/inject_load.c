#include "target/inject_load.h"

#include "target/inject_stop.h"
#include "wire/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_SLICE_NS 1000000
#define ENDED_WAIT_NS 200000000ull

/* The words of the control memory are the target's as well: read once. */
struct talk {
	struct borrow *b;
	struct inject_report *r;
	uint32_t go;
	char error[BOOT_TEXT_BYTES];
};

static void wake(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store(word, value);
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static bool wait_for(const struct talk *t, _Atomic uint32_t *word,
		     uint32_t value, uint64_t deadline_ns)
{
	const struct timespec slice = { .tv_nsec = WAIT_SLICE_NS };
	uint32_t now;

	while ((now = atomic_load(word)) != value) {
		if (clock_now_ns() >= deadline_ns ||
		    probe_has_ended(t->b->target))
			return false;
		syscall(SYS_futex, word, FUTEX_WAIT, now, &slice, NULL, 0);
	}
	return true;
}

static int write_all(int fd, const struct inject_image *image)
{
	size_t done = 0;

	while (done < image->bytes) {
		ssize_t n = pwrite(fd, (const char *)image->data + done,
				   image->bytes - done, (off_t)done);

		if (n == 0)
			return -EIO;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			done += (size_t)n;
	}
	return 0;
}

/* The loader's words in one line of printable characters. */
static void keep_error(struct talk *t)
{
	size_t n = 0;

	memcpy(t->error, t->b->control->text, sizeof(t->error));
	t->error[sizeof(t->error) - 1] = '\0';
	for (; t->error[n]; n++)
		if ((unsigned char)t->error[n] < ' ' ||
		    (unsigned char)t->error[n] > '~')
			t->error[n] = ' ';
}

/* One path; enum boot_answer, BOOT_NO_ANSWER after the time. */
static enum boot_answer try_path(struct talk *t, const char *path)
{
	struct boot_control *c = t->b->control;
	uint32_t answer;

	snprintf(c->path, sizeof(c->path), "%s", path);
	wake(&c->go, ++t->go);
	if (!wait_for(t, &c->answered, t->go, t->b->deadline_ns))
		return BOOT_NO_ANSWER;
	answer = c->answer;
	if (answer == BOOT_LOADED)
		return BOOT_LOADED;
	keep_error(t);
	return answer == BOOT_NO_ENTRY ? BOOT_NO_ENTRY : BOOT_NO_LIBRARY;
}

/*
 * The loader takes a path that it has seen for the library that it has loaded
 * from it: each of ours needs a spelling of its own.
 */
static enum boot_answer try_memfd(struct talk *t)
{
	char path[BOOT_PATH_BYTES], slashes[64];
	unsigned n = t->b->target->agents;

	if (n > sizeof(slashes) - 2)
		n = sizeof(slashes) - 2;
	memset(slashes, '/', n + 1);
	slashes[n + 1] = '\0';
	snprintf(path, sizeof(path), "/proc/self/fd%s%d", slashes,
		 t->b->fd_there);
	return try_path(t, path);
}

/* A directory of the target, its links resolved as the target would. */
static int open_folder(const struct talk *t, const char *name)
{
	const struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				      .resolve = RESOLVE_IN_ROOT |
						 RESOLVE_NO_MAGICLINKS };
	char path[64];
	int root, fd;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)t->b->target->pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
	if (fd < 0)
		fd = -errno;
	close(root);
	return fd;
}

static enum boot_answer try_folder(struct talk *t, const char *folder)
{
	enum boot_answer answer = BOOT_NO_LIBRARY;
	char name[64], path[BOOT_PATH_BYTES];
	uint64_t random = clock_now_ns();
	int dir = open_folder(t, folder), fd;

	if (dir < 0)
		return BOOT_NO_LIBRARY;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random ^= (uint64_t)getpid() << 32;
	snprintf(name, sizeof(name), ".moetop-agent-%016llx",
		 (unsigned long long)random);
	fd = openat(dir, name,
		    O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0555);
	if (fd >= 0) {
		int err =
			fchmod(fd, 0555) ? -errno : write_all(fd, t->b->image);

		close(fd);
		snprintf(path, sizeof(path), "/%s/%s", folder, name);
		if (!err)
			answer = try_path(t, path);
		unlinkat(dir, name, 0);
	}
	close(dir);
	return answer;
}

static enum boot_answer try_all(struct talk *t)
{
	static const char *const folders[] = { "dev/shm", "tmp", "run",
					       "var/tmp" };
	enum boot_answer answer = BOOT_NO_LIBRARY;

	if (t->b->target->has_proc)
		answer = try_memfd(t);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) &&
			   answer == BOOT_NO_LIBRARY;
	     i++)
		answer = try_folder(t, folders[i]);
	return answer;
}

static int say_answer(struct talk *t, enum boot_answer answer)
{
	int pid = (int)t->b->target->pid;

	if (answer == BOOT_LOADED)
		return 0;
	if (answer == BOOT_NO_ANSWER)
		return probe_refuse(t->r, INJECT_TIMEOUT,
				    "look again in some seconds",
				    "process %d is slow to load the agent: its "
				    "loader is busy",
				    pid);
	if (answer == BOOT_NO_ENTRY)
		return probe_refuse(t->r, INJECT_IMAGE, NULL, "%.140s",
				    t->error);
	return probe_refuse(t->r, INJECT_LOAD,
			    "give the server a /dev/shm or a /tmp that is not "
			    "mounted noexec",
			    "%.140s",
			    t->error[0] ? t->error
					: "no /proc and no writable folder in "
					  "the server's view");
}

int load_library(struct borrow *b, struct inject_report *r)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	struct talk t = { .b = b, .r = r };
	uint64_t begin_ns = clock_now_ns(), limit_ns;
	enum boot_answer answer;
	int err = write_all(b->fd, b->image);

	inject_moment(MOMENT_LIBRARY);
	if (!err && fcntl(b->fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE))
		err = -errno;
	if (err) {
		wake(&b->control->go, BOOT_GO_END);
		return probe_refuse(r, INJECT_LOAD, NULL, "its memfd: %s",
				    strerror(-err));
	}
	answer = try_all(&t);
	r->load_ns = clock_now_ns() - begin_ns;
	inject_moment(MOMENT_LOADED);
	wake(&b->control->go, BOOT_GO_END);
	limit_ns = clock_now_ns() + ENDED_WAIT_NS;
	if (answer != BOOT_NO_ANSWER && atomic_load(&b->control->taken))
		wait_for(&t, &b->control->ended, 1, limit_ns);
	return say_answer(&t, answer);
}
