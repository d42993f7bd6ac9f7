/*
 * boot.c - runs in a process before this library is loaded; see wire/boot.h
 *
 * It is mapped by itself, so it may use nothing outside its section: no other
 * function, no constant in memory, no thread-local variable, no relocation.
 * The Makefile compiles it accordingly, tests/e2e/boot_code.t looks at the
 * result.
 */
#include "wire/boot.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/boot_cpu.h"

#define BOOT __attribute__((section(BOOT_SECTION), used))
#define RTLD_NOW_LOCAL 2
#define CREATE_DETACHED 1 /* PTHREAD_CREATE_DETACHED */
#define ATTR_WORDS 16     /* pthread_attr_t and some more */
/* Turns without sleep in which the injector usually takes the thread back.  It
 * does not yield: it would have to queue up again. */
#define SPINS 1000
/* Without a new thread nobody can wake the borrowed one. */
#define YIELDS_ALONE 20000
#define TAKEN_WAIT_MS 100
#define GO_WAIT_MS 5000
#define MS_NS 1000000

__asm__(BOOT_CODE_HEAD);
void boot_start(void *control) __attribute__((visibility("hidden")));
BOOT static void boot_borrowed(long fd, long offset, long bytes);
BOOT static void boot_thread(struct boot_control *c, struct boot_leave *leave);

BOOT static void wake(_Atomic uint32_t *word)
{
	boot_call(SYS_futex, (long)word, FUTEX_WAKE, 0x7fffffff, 0, 0, 0);
}

BOOT static void set(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store(word, value);
	wake(word);
}

/* Until *word is no longer old; false: not within so many milliseconds. */
BOOT static _Bool wait_change(_Atomic uint32_t *word, uint32_t old, int ms)
{
	volatile struct timespec t; /* volatile: no image of it in .rodata */

	t.tv_sec = 0;
	t.tv_nsec = MS_NS;
	for (; atomic_load(word) == old; ms--) {
		if (ms <= 0)
			return 0;
		boot_call(SYS_futex, (long)word, FUTEX_WAIT, old, (long)&t, 0,
			  0);
	}
	return 1;
}

BOOT static int create(struct boot_control *c)
{
	int (*init)(void *) = (int (*)(void *))c->attr_init;
	int (*stack)(void *, size_t) =
		(int (*)(void *, size_t))c->attr_setstacksize;
	int (*detach)(void *, int) =
		(int (*)(void *, int))c->attr_setdetachstate;
	int (*start)(void *, void *, void (*)(void *), void *) = (int (*)(
		void *, void *, void (*)(void *), void *))c->pthread_create;
	unsigned long attr[ATTR_WORDS], thread;
	int err = init(attr);

	if (!err)
		err = stack(attr, c->stack_bytes);
	if (!err)
		err = detach(attr, CREATE_DETACHED);
	return err ? err : start(&thread, attr, boot_start, c);
}

BOOT static void boot_borrowed(long fd, long offset, long bytes)
{
	struct boot_control *c;
	long at = boot_call(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED, fd, offset);
	int turns;

	if ((unsigned long)at > -4096ul)
		return;
	c = (struct boot_control *)at;
	c->mapped = (uint64_t)at;
	c->create_error = create(c);
	set(&c->made, c->create_error ? BOOT_NOT_MADE : BOOT_MADE);
	for (turns = 0; turns < SPINS && !atomic_load(&c->release); turns++)
		boot_relax();
	/* untimed: a timed wait would lose what is left of the call that this
	 * thread was taken out of */
	while (!c->create_error && !atomic_load(&c->release))
		boot_call(SYS_futex, (long)&c->release, FUTEX_WAIT, 0, 0, 0, 0);
	for (turns = 0; turns < YIELDS_ALONE && !atomic_load(&c->release);
	     turns++)
		boot_call(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	atomic_store(&c->left, 1);
}

/* The loader's words, cut to fit. */
BOOT static void copy_error(struct boot_control *c)
{
	const char *(*error)(void) = (const char *(*)(void))c->dlerror;
	const volatile char *from = error();
	volatile char *to = c->text;
	unsigned n = 0;

	for (; from && from[n] && n < BOOT_TEXT_BYTES - 1; n++)
		to[n] = from[n];
	to[n] = 0;
}

BOOT static uint32_t load(struct boot_control *c)
{
	void *(*open)(const char *, int) =
		(void *(*)(const char *, int))c->dlopen;
	void *(*symbol)(void *, const char *) =
		(void *(*)(void *, const char *))c->dlsym;
	void *library = open(c->path, RTLD_NOW_LOCAL);
	int (*entry)(void);

	if (!library) {
		copy_error(c);
		return BOOT_NO_LIBRARY;
	}
	entry = (int (*)(void))symbol(library, c->entry);
	if (!entry) {
		copy_error(c);
		return BOOT_NO_ENTRY;
	}
	entry();
	return BOOT_LOADED;
}

BOOT static void serve(struct boot_control *c)
{
	uint32_t go = 0;

	while (wait_change(&c->go, go, GO_WAIT_MS)) {
		go = atomic_load(&c->go);
		if (go == BOOT_GO_END)
			break;
		c->answer = load(c);
		set(&c->answered, go);
	}
}

BOOT static void boot_thread(struct boot_control *c, struct boot_leave *leave)
{
	boot_call(SYS_prctl, PR_SET_NAME, (long)c->name, 0, 0, 0, 0);
	if (!wait_change(&c->taken, 0, TAKEN_WAIT_MS))
		set(&c->release, 1);
	serve(c);
	boot_call(SYS_close, c->fd, 0, 0, 0, 0, 0);
	leave->code = c->code;
	leave->bytes = c->code_bytes;
	/* else the borrowed thread may still be in it */
	leave->munmap = atomic_load(&c->taken) ? c->munmap : 0;
	if (leave->munmap)
		set(&c->ended, 1);
	if (leave->munmap)
		boot_call(SYS_munmap, (long)c, (long)c->bytes, 0, 0, 0, 0);
}
