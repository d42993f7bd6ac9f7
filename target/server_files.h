/*
 * server_files.h - a server's own file system and environment, from outside
 *
 * Files are opened below /proc/PID/root such that no symbolic link leaves it
 * (openat2, RESOLVE_IN_ROOT); on kernels without that only where the server's
 * root is ours, too.  Only regular files are read, and never more than asked
 * for.  What may not be seen is taken to be as it is here: the root, the
 * working directory.
 */
#ifndef MOETOP_TARGET_SERVER_FILES_H
#define MOETOP_TARGET_SERVER_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct server_files {
	int root;        /* directory descriptor */
	bool own_root;   /* it is ours, too: any open is as good */
	bool cwd_hidden; /* no permission: cwd is ours instead */
	char cwd[1024];  /* "" unknown */
	char home[512];
	char *env; /* NUL-separated, ends with two NULs; may be NULL */
	size_t env_bytes;
};

/* 0 (then to be closed), -ESRCH, -errno. */
int server_files_open(struct server_files *f, pid_t pid);
void server_files_close(struct server_files *f);

/* A variable of its environment as it was when the server started; NULL: not
 * there, or empty. */
const char *server_files_env(const struct server_files *f, const char *name);

/* One file, at most max bytes, with a NUL behind it; "~/" and relative paths
 * are the server's.  *data is owned by the caller.  0, -ENOENT, -EACCES, -EFBIG,
 * -EINVAL not a regular file, -errno. */
int server_files_load(const struct server_files *f, const char *path,
		      size_t max, char **data, size_t *bytes);

/* Calls entry for the names in a directory, but those that begin with a dot,
 * until it says that it has enough.  0 or -errno. */
int server_files_list(const struct server_files *f, const char *path,
		      bool (*entry)(void *cls, const char *name), void *cls);

/* Paths are made of foreign strings: one that does not fit is no path. */
bool path_make(char *out, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
