#include "target/server_files.h"

#include "target/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENVIRON_BYTES (256u << 10)
#define ENTRIES_MAX 65536u
#define PASSWD_BYTES 4096u

bool path_make(char *out, size_t room, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(out, room, format, ap);
	va_end(ap);
	return n > 0 && (size_t)n < room;
}

const char *server_files_env(const struct server_files *f, const char *name)
{
	size_t n = strlen(name);

	for (const char *e = f->env; e && *e; e += strlen(e) + 1)
		if (strncmp(e, name, n) == 0 && e[n] == '=' && e[n + 1])
			return e + n + 1;
	return NULL;
}

static void find_home(struct server_files *f, pid_t pid)
{
	const char *home = server_files_env(f, "HOME");
	struct passwd entry, *pw = NULL;
	char path[64], room[PASSWD_BYTES];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	/* several threads look at servers */
	if (!home && stat(path, &st) == 0 &&
	    !getpwuid_r(st.st_uid, &entry, room, sizeof(room), &pw) && pw)
		home = pw->pw_dir;
	if (!home || !path_make(f->home, sizeof(f->home), "%s", home))
		strcpy(f->home, "/root");
}

static bool same_file(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat(path, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Without permission for /proc/PID/root, take it that our root is its root. */
int server_files_open(struct server_files *f, pid_t pid)
{
	char path[64];
	ssize_t n;

	*f = (struct server_files){ 0 };
	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	f->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (f->root < 0 && errno == EACCES)
		f->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (f->root < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	f->own_root = same_file(f->root, "/");
	snprintf(path, sizeof(path), "/proc/%d/cwd", (int)pid);
	n = readlink(path, f->cwd, sizeof(f->cwd) - 1);
	f->cwd_hidden = n < 0 && errno == EACCES;
	if (f->cwd_hidden && getcwd(f->cwd, sizeof(f->cwd) - 1))
		n = (ssize_t)strlen(f->cwd);
	f->cwd[n > 0 ? n : 0] = '\0';
	f->env = calloc(1, ENVIRON_BYTES + 1);
	if (f->env) {
		ssize_t got = proc_read(pid, "environ", f->env, ENVIRON_BYTES);

		f->env_bytes = got > 0 ? (size_t)got : 0;
	}
	find_home(f, pid);
	return 0;
}

void server_files_close(struct server_files *f)
{
	free(f->env);
	close(f->root);
}

/* Symbolic links, also absolute ones, resolve inside the server's root. */
static int open_in(const struct server_files *f, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned)(flags | O_CLOEXEC),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, f->root, path, &how, sizeof(how));

	/* Kernels before 5.6, and old container sandboxes. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM) && f->own_root)
		fd = open(path, (int)how.flags);
	return fd < 0 ? -errno : (int)fd;
}

static bool make_absolute(const struct server_files *f, const char *path,
			  char *out, size_t room)
{
	if (path[0] == '/')
		return path_make(out, room, "%s", path);
	if (path[0] == '~' && path[1] == '/')
		return path_make(out, room, "%s/%s", f->home, path + 2);
	return f->cwd[0] && path_make(out, room, "%s/%s", f->cwd, path);
}

/* A device may act on being opened: look before. */
static int open_regular(const struct server_files *f, const char *path)
{
	int at = open_in(f, path, O_PATH), fd;
	struct stat st;
	char self[64];

	if (at < 0)
		return at;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
	if (fstat(at, &st))
		fd = -errno;
	else if (!S_ISREG(st.st_mode))
		fd = -EINVAL;
	else if ((fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
		fd = -errno;
	close(at);
	return fd;
}

static int fd_load(int fd, size_t max, char **data, size_t *bytes)
{
	struct stat st;
	size_t n = 0;
	ssize_t got = 1;
	char *buf;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((uint64_t)st.st_size > max)
		return -EFBIG;
	buf = malloc((size_t)st.st_size + 1);
	if (!buf)
		return -ENOMEM;
	while (n < (size_t)st.st_size && got > 0) {
		got = read(fd, buf + n, (size_t)st.st_size - n);
		n += got > 0 ? (size_t)got : 0;
	}
	if (got < 0) {
		free(buf);
		return -EIO;
	}
	buf[n] = '\0';
	*data = buf;
	*bytes = n;
	return 0;
}

int server_files_load(const struct server_files *f, const char *path,
		      size_t max, char **data, size_t *bytes)
{
	char absolute[PATH_MAX];
	int fd, err;

	if (!make_absolute(f, path, absolute, sizeof(absolute)))
		return -ENOENT;
	fd = open_regular(f, absolute);
	if (fd < 0)
		return fd;
	err = fd_load(fd, max, data, bytes);
	close(fd);
	return err;
}

int server_files_list(const struct server_files *f, const char *path,
		      bool (*entry)(void *cls, const char *name), void *cls)
{
	char absolute[PATH_MAX];
	const struct dirent *e;
	DIR *dir;
	int fd;

	if (!make_absolute(f, path, absolute, sizeof(absolute)))
		return -ENOENT;
	fd = open_in(f, absolute, O_DIRECTORY);
	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < ENTRIES_MAX && (e = readdir(dir)); i++)
		if (e->d_name[0] != '.' && entry(cls, e->d_name))
			break;
	closedir(dir);
	return 0;
}
