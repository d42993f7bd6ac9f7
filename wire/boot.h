/*
 * boot.h - between the injector and the boot code of the agent's library
 *
 * The boot code is a piece of the library that runs before the library is
 * loaded: the injector puts the library into a memfd of the target, followed by
 * one struct boot_control, and maps the pages that hold the boot code.  It is
 * found by its head: at a multiple of BOOT_ALIGN, in an executable segment.
 *
 *	borrowed thread   maps the control memory, starts a thread, waits to be
 *	                  taken back; left alone, it returns to the signal frame
 *	                  that the injector has put below it
 *	the new thread    loads the library from the paths that it is given and
 *	                  calls InitializeInjection, then removes every trace of
 *	                  the two mappings and ends
 *
 * Both bound their waits: the injector may die at any moment.
 */
#ifndef MOETOP_WIRE_BOOT_H
#define MOETOP_WIRE_BOOT_H

#include <stdatomic.h>
#include <stdint.h>

#define BOOT_NAME "moetop-agent" /* of the memfd */
#define BOOT_MAGIC 0x544f4f42504f544dull
#define BOOT_VERSION 1u
#define BOOT_ALIGN 64u
#define BOOT_CODE_MAX 65536u
#define BOOT_PATH_BYTES 256u
#define BOOT_TEXT_BYTES 256u

/* Distances in bytes from the field itself, so that nothing is relocated. */
struct boot_head {
	uint64_t magic;
	uint32_t version;
	int32_t start; /* first byte of the boot code, at or before the head */
	int32_t end;   /* first byte behind it */
	int32_t enter; /* where the borrowed thread enters: (fd, offset, bytes)
			  of the control memory */
};

enum boot_made { BOOT_MAKING, BOOT_MADE, BOOT_NOT_MADE };

/* How the new thread answers to a path. */
enum boot_answer {
	BOOT_NO_ANSWER,
	BOOT_LOADED,
	BOOT_NO_LIBRARY,
	BOOT_NO_ENTRY
};

#define BOOT_GO_END UINT32_MAX

/* Zero but for what the injector fills in before the boot code runs. */
struct boot_control {
	/* by the injector, constant */
	uint64_t bytes; /* of this memory, as mapped */
	uint64_t code, code_bytes;
	int64_t fd; /* of the memfd, in the target */
	uint64_t attr_init, attr_setstacksize, attr_setdetachstate;
	uint64_t pthread_create, dlopen, dlsym, dlerror, munmap;
	uint64_t stack_bytes;
	char name[16];  /* of the new thread */
	char entry[32]; /* InitializeInjection */

	/* by the injector, while it lives */
	char path[BOOT_PATH_BYTES];
	_Atomic uint32_t taken; /* futex; 1: the borrowed thread is back */
	_Atomic uint32_t go;    /* futex; grows when path is there */

	/* by the boot code */
	uint64_t mapped;           /* where this memory is in the target */
	_Atomic uint32_t made;     /* futex; enum boot_made */
	_Atomic uint32_t release;  /* futex; 1: the borrowed thread may go */
	_Atomic uint32_t left;     /* it has gone by itself: hands off */
	_Atomic uint32_t answered; /* futex; the `go` that was answered */
	_Atomic uint32_t ended;    /* futex; nothing is used any more */
	uint32_t answer;           /* enum boot_answer */
	int32_t create_error;      /* of pthread_create, an errno */
	int32_t pad;
	char text[BOOT_TEXT_BYTES]; /* dlerror's, "" none */
};

_Static_assert(sizeof(struct boot_control) <= 4096, "one page");

#endif
