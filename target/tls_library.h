/*
 * tls_library.h - the copies of OpenSSL's libssl that a process has mapped
 *
 * For probes: offsets in the file and a path that opens it, whatever root and
 * mount namespace the process has, and though the file may have been deleted.  A
 * libssl that is linked into something else has no such name and is not found.
 */
#ifndef MOETOP_TARGET_TLS_LIBRARY_H
#define MOETOP_TARGET_TLS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TLS_LIBRARIES_MAX 4u /* of one process */
#define TLS_FUNCTIONS 7u

/* SSL_read, SSL_read_ex, SSL_write, SSL_write_ex, SSL_do_handshake,
 * SSL_set_bio, SSL_free: the order of the offsets. */
extern const char *const tls_functions[TLS_FUNCTIONS];

struct tls_library {
	uint64_t base;                  /* its address in the process */
	char path[256];                 /* that opens the file */
	uint64_t entry[TLS_FUNCTIONS];  /* 0: it has no such function */
	uint64_t inside[TLS_FUNCTIONS]; /* where a probe is cheap */
	bool native; /* the process is not Python with its module ssl */
};

/*
 * At most `max` libraries of the process, those with SSL_read and SSL_write.  Their
 * number, 0 when it has none, -ESRCH, -EACCES, or -errno.
 */
int tls_libraries_find(pid_t pid, struct tls_library *out, unsigned max);

/*
 * How far into a function, whose first n bytes these are, the first instruction
 * is that the kernel emulates at a probe, instead of stepping over it: 10 times
 * cheaper.  Those before it leave registers with arguments alone, or it is 0.
 * x86-64; 0 for other machines.
 */
size_t tls_cheap_offset(const uint8_t *code, size_t n);

/* Does its command line (NUL between the words) tell a server to end TLS? */
bool tls_in_words(const char *words, size_t bytes);
bool tls_expected(pid_t pid);

/*
 * May the return of a function be probed in a process?  From Linux 6.11 to 6.13
 * the return is a system call of its own that seccomp filters do not know, and
 * that ends or fails a process that has some.  release: that of uname; status:
 * the text of /proc/PID/status.
 */
bool tls_returns_harmless(const char *release, const char *status);

/* The same of a process, here and now; false when it cannot be told. */
bool tls_process_harmless(pid_t pid);

/* The sockets that listen on some ports in the network namespace of pid. */
#define TLS_LISTENING_MAX 256u /* further ones are passed over */
struct tls_listening {
	uint64_t inodes[TLS_LISTENING_MAX];
	unsigned n;
	bool held; /* within tls_listens */
};
void tls_listening_read(struct tls_listening *out, pid_t pid,
			const uint16_t *ports, unsigned n);

/* Does the process hold one of them? */
bool tls_listens(struct tls_listening *l, pid_t pid);

#endif
