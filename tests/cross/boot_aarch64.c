/*
 * boot_aarch64.c - the boot code of the agent at work, on 64-bit Arm
 *
 *	boot_aarch64 LIBRARY
 *
 * What the injector does, without ptrace: the library in a memfd, its boot code
 * mapped, and a thread that enters it as the borrowed one does.  First with an
 * injector that goes away, then with one that takes the thread back.  TAP.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wire/boot.h"

#define PAGE 4096ul
#define WAIT_MS 20000
#define WAKE 1 /* FUTEX_WAKE */

static int results, failures;

struct boot {
	uint8_t *code;
	size_t code_bytes;
	uint8_t *enter;
	struct boot_control *control;
	long offset; /* of the control page in the memfd */
	int fd;
};

static _Atomic bool entered, came_back;

static void check(bool good, const char *name)
{
	results++;
	failures += !good;
	printf("%s %d - %s\n", good ? "ok" : "not ok", results, name);
}

static void die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

static void nap(void)
{
	const struct timespec t = { .tv_nsec = 1000000 };

	nanosleep(&t, NULL);
}

static bool wait_for(_Atomic uint32_t *word, uint32_t value)
{
	for (int i = 0; i < WAIT_MS && atomic_load(word) != value; i++)
		nap();
	return atomic_load(word) == value;
}

static void set(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store(word, value);
	syscall(SYS_futex, word, WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Bytes of a field, `distance` away from itself. */
static size_t at(const uint8_t *file, const int32_t *field)
{
	return (size_t)((const uint8_t *)field - file + *field);
}

static const struct boot_head *find_head(const uint8_t *file, size_t bytes)
{
	for (size_t i = 0; i + sizeof(struct boot_head) <= bytes;
	     i += BOOT_ALIGN) {
		const void *p = file + i;
		const struct boot_head *h = p;

		if (h->magic == BOOT_MAGIC && h->version == BOOT_VERSION)
			return h;
	}
	return NULL;
}

static void fill_control(struct boot *b)
{
	struct boot_control *c = b->control;

	c->bytes = PAGE;
	c->code = (uint64_t)(uintptr_t)b->code;
	c->code_bytes = b->code_bytes;
	c->fd = b->fd;
	c->attr_init = (uint64_t)(uintptr_t)pthread_attr_init;
	c->attr_setstacksize = (uint64_t)(uintptr_t)pthread_attr_setstacksize;
	c->attr_setdetachstate =
		(uint64_t)(uintptr_t)pthread_attr_setdetachstate;
	c->pthread_create = (uint64_t)(uintptr_t)pthread_create;
	c->dlopen = (uint64_t)(uintptr_t)dlopen;
	c->dlsym = (uint64_t)(uintptr_t)dlsym;
	c->dlerror = (uint64_t)(uintptr_t)dlerror;
	c->munmap = (uint64_t)(uintptr_t)munmap;
	c->stack_bytes = 262144;
	strcpy(c->name, "moetop-boot");
	strcpy(c->entry, "InitializeInjection");
}

static void prepare(struct boot *b, const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	const struct boot_head *h;
	struct stat s;
	size_t start, end;
	uint8_t *whole;

	if (file < 0 || fstat(file, &s))
		die(path);
	b->offset = (long)(((size_t)s.st_size + PAGE - 1) & ~(PAGE - 1));
	b->fd = (int)syscall(SYS_memfd_create, BOOT_NAME, MFD_CLOEXEC);
	if (b->fd < 0 || ftruncate(b->fd, b->offset + (long)PAGE))
		die("memfd");
	whole = mmap(NULL, (size_t)b->offset + PAGE, PROT_READ | PROT_WRITE,
		     MAP_SHARED, b->fd, 0);
	if (whole == MAP_FAILED ||
	    read(file, whole, (size_t)s.st_size) != s.st_size)
		die("library");
	close(file);
	h = find_head(whole, (size_t)s.st_size);
	if (!h)
		die("no boot code in the library");
	start = at(whole, &h->start) & ~(PAGE - 1);
	end = (at(whole, &h->end) + PAGE - 1) & ~(PAGE - 1);
	b->code_bytes = end - start;
	b->code = mmap(NULL, b->code_bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE,
		       b->fd, (long)start);
	if (b->code == MAP_FAILED)
		die("boot code");
	b->enter = b->code + (at(whole, &h->enter) - start);
	b->control = (void *)(whole + b->offset);
	fill_control(b);
}

/* Ends whatever the thread does: the injector has taken it back. */
static void on_taken(int number)
{
	(void)number;
	for (;;)
		pause();
}

static void *borrowed(void *arg)
{
	struct boot *b = arg;
	void (*enter)(long, long, long);

	memcpy(&enter, &b->enter, sizeof(enter));
	atomic_store(&entered, true);
	enter(b->fd, b->offset, (long)PAGE);
	atomic_store(&came_back, true);
	return NULL;
}

static pthread_t start(struct boot *b)
{
	pthread_t t;

	atomic_store(&came_back, false);
	if (pthread_create(&t, NULL, borrowed, b))
		die("thread");
	if (!wait_for(&b->control->made, BOOT_MADE))
		die("no new thread");
	return t;
}

static bool load(struct boot *b, uint32_t go, const char *path)
{
	strcpy(b->control->path, path);
	set(&b->control->go, go);
	return wait_for(&b->control->answered, go);
}

static unsigned count_rings(void)
{
	unsigned n = 0;
	struct dirent *e;
	DIR *d = opendir("/proc/self/fd");

	while (d && (e = readdir(d))) {
		char path[300], link[100] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		if (readlink(path, link, sizeof(link) - 1) > 0)
			n += strstr(link, "memfd:moetop-ring") != NULL;
	}
	if (d)
		closedir(d);
	return n;
}

static bool is_mapped(const uint8_t *page)
{
	return msync((void *)(uintptr_t)page, PAGE, MS_ASYNC) == 0;
}

static void test_left_alone(const char *path)
{
	struct boot b;
	bool back = false;

	prepare(&b, path);
	start(&b);
	for (int i = 0; i < WAIT_MS && !back; i++, nap())
		back = atomic_load(&came_back);
	check(back && atomic_load(&b.control->left),
	      "without an injector the borrowed thread goes back by itself");
	check(load(&b, 1, "/nothing/here.so") &&
		      b.control->answer == BOOT_NO_LIBRARY &&
		      strstr(b.control->text, "/nothing/here.so"),
	      "what dlopen says of a path that is none comes back");
	set(&b.control->go, BOOT_GO_END);
	for (int i = 0; i < WAIT_MS && fcntl(b.fd, F_GETFD) >= 0; i++)
		nap();
	check(fcntl(b.fd, F_GETFD) < 0 && is_mapped(b.code),
	      "the descriptor is closed; code that may be in use stays");
}

static void test_taken_back(const char *path)
{
	struct sigaction action = { .sa_handler = on_taken };
	struct boot b;
	char self[64];
	pthread_t t;

	prepare(&b, path);
	sigaction(SIGUSR1, &action, NULL);
	t = start(&b);
	pthread_kill(t, SIGUSR1);
	nap();
	set(&b.control->taken, 1);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", b.fd);
	check(load(&b, 1, self) && b.control->answer == BOOT_LOADED,
	      "the new thread loads the library and calls it");
	check(count_rings() == 1, "the agent has made its ring");
	set(&b.control->go, BOOT_GO_END);
	check(wait_for(&b.control->ended, 1),
	      "the new thread comes to its end");
	for (int i = 0; i < WAIT_MS && is_mapped(b.code); i++)
		nap();
	check(!is_mapped(b.code) && fcntl(b.fd, F_GETFD) < 0,
	      "and has removed its code and its descriptor");
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	if (argc != 2)
		die("usage: boot_aarch64 LIBRARY");
	test_left_alone(argv[1]);
	test_taken_back(argv[1]);
	printf("1..%d\n", results);
	return failures != 0;
}
