#include "target/config.h"

#include "target/config_override.h"
#include "target/model_config.h"
#include "target/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENVIRON_BYTES (256u << 10)
#define REF_BYTES 128u

/* The server's file system and environment. */
struct view {
	int root;        /* directory descriptor */
	bool own_root;   /* it is ours, too: any open is as good */
	bool cwd_hidden; /* no permission: cwd is ours instead */
	char cwd[1024];  /* "" unknown */
	char home[512];
	char *env; /* NUL-separated, ends with two NULs; may be NULL */
};

/* Paths are made of foreign strings: one that does not fit is no path. */
static bool path_make(char *out, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static bool path_make(char *out, size_t room, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(out, room, format, ap);
	va_end(ap);
	return n > 0 && (size_t)n < room;
}

static const char *view_env(const struct view *v, const char *name)
{
	size_t n = strlen(name);

	for (const char *e = v->env; e && *e; e += strlen(e) + 1)
		if (strncmp(e, name, n) == 0 && e[n] == '=' && e[n + 1])
			return e + n + 1;
	return NULL;
}

static void view_find_home(struct view *v, pid_t pid)
{
	const char *home = view_env(v, "HOME");
	const struct passwd *pw;
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (!home && stat(path, &st) == 0) {
		pw = getpwuid(st.st_uid);
		home = pw ? pw->pw_dir : NULL;
	}
	if (!home || !path_make(v->home, sizeof(v->home), "%s", home))
		strcpy(v->home, "/root");
}

static bool same_file(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat(path, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Without permission for /proc/PID/root, take it that our root is its root. */
static int view_open(struct view *v, pid_t pid)
{
	char path[64];
	ssize_t n;

	*v = (struct view){ 0 };
	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	v->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (v->root < 0 && errno == EACCES)
		v->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (v->root < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	v->own_root = same_file(v->root, "/");
	snprintf(path, sizeof(path), "/proc/%d/cwd", (int)pid);
	n = readlink(path, v->cwd, sizeof(v->cwd) - 1);
	v->cwd_hidden = n < 0 && errno == EACCES;
	if (v->cwd_hidden && getcwd(v->cwd, sizeof(v->cwd) - 1))
		n = (ssize_t)strlen(v->cwd);
	v->cwd[n > 0 ? n : 0] = '\0';
	v->env = calloc(1, ENVIRON_BYTES + 1);
	if (v->env)
		proc_read(pid, "environ", v->env, ENVIRON_BYTES);
	view_find_home(v, pid);
	return 0;
}

static void view_close(struct view *v)
{
	free(v->env);
	close(v->root);
}

/* Symbolic links, also absolute ones, resolve inside the server's root. */
static int view_openat(const struct view *v, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned)(flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK |
				    O_NOCTTY),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, v->root, path, &how, sizeof(how));

	/* Kernels before 5.6, and old container sandboxes. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM) && v->own_root)
		fd = open(path, (int)how.flags);
	return fd < 0 ? -errno : (int)fd;
}

static bool view_absolute(const struct view *v, const char *path, char *out,
			  size_t room)
{
	if (path[0] == '/')
		return path_make(out, room, "%s", path);
	if (path[0] == '~' && path[1] == '/')
		return path_make(out, room, "%s/%s", v->home, path + 2);
	return v->cwd[0] && path_make(out, room, "%s/%s", v->cwd, path);
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

static int view_load(const struct view *v, const char *path, size_t max,
		     char **data, size_t *bytes)
{
	char absolute[PATH_MAX];
	int fd, err;

	if (!view_absolute(v, path, absolute, sizeof(absolute)))
		return -ENOENT;
	fd = view_openat(v, absolute, 0);
	if (fd < 0)
		return fd;
	err = fd_load(fd, max, data, bytes);
	close(fd);
	return err;
}

/* ---- places ------------------------------------------------------------- */

static int take_file(const struct view *v, const char *path,
		     struct config_file *f)
{
	char quant[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int err = view_load(v, path, MODEL_CONFIG_BYTES_MAX, &f->json,
			    &f->json_bytes);

	if (err)
		return err;
	if (!path_make(f->path, sizeof(f->path), "%s", path))
		f->path[0] = '\0'; /* too long to show */
	if (path_make(quant, sizeof(quant), "%.*s%shf_quant_config.json",
		      slash ? (int)(slash - path) : 0, path, slash ? "/" : ""))
		view_load(v, quant, MODEL_CONFIG_BYTES_MAX, &f->quant,
			  &f->quant_bytes);
	return 0;
}

/* A directory with a config.json, or a JSON file. */
static int take_path(const struct view *v, const char *path,
		     struct config_file *f)
{
	char inside[PATH_MAX];
	size_t n = strlen(path);
	int err = -ENOENT;

	if (n > 5 && strcmp(path + n - 5, ".json") == 0)
		err = take_file(v, path, f);
	if (err && path_make(inside, sizeof(inside), "%s/config.json", path))
		err = take_file(v, inside, f);
	return err;
}

/* The one entry of DIR/snapshots; -ENOENT when there are none or several. */
static int only_snapshot(const struct view *v, const char *repo, char *name,
			 size_t room)
{
	char path[PATH_MAX];
	const struct dirent *e;
	unsigned n = 0;
	DIR *dir;
	int fd;

	if (!path_make(path, sizeof(path), "%s/snapshots", repo))
		return -ENOENT;
	fd = view_openat(v, path, O_DIRECTORY);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return -ENOENT;
	}
	while ((e = readdir(dir)))
		if (e->d_name[0] != '.' &&
		    path_make(name, room, "%s", e->d_name))
			n++;
	closedir(dir);
	return n == 1 ? 0 : -ENOENT;
}

static int take_snapshot(const struct view *v, const char *repo,
			 const char *snapshot, struct config_file *f)
{
	char path[PATH_MAX];

	if (!path_make(path, sizeof(path), "%s/snapshots/%s", repo, snapshot))
		return -ENOENT;
	return take_path(v, path, f);
}

static int take_hub(const struct view *v, const char *hub,
		    const struct cmdline *c, struct config_file *f)
{
	char repo[PATH_MAX], path[PATH_MAX], name[REF_BYTES];
	const char *revision = c->revision[0] ? c->revision : "main";
	const char *slash = strchr(c->model, '/');
	char *ref = NULL;
	size_t bytes;
	int err;

	if (!slash || strchr(slash + 1, '/') ||
	    !path_make(repo, sizeof(repo), "%s/models--%.*s--%s", hub,
		       (int)(slash - c->model), c->model, slash + 1) ||
	    !path_make(path, sizeof(path), "%s/refs/%s", repo, revision))
		return -ENOENT;
	err = view_load(v, path, REF_BYTES - 1, &ref, &bytes);
	if (!err) {
		ref[strcspn(ref, " \r\n")] = '\0';
		err = ref[0] && !strchr(ref, '/')
			      ? take_snapshot(v, repo, ref, f)
			      : -ENOENT;
		free(ref);
	} else if (c->revision[0]) {
		err = take_snapshot(v, repo, revision, f);
	} else if (!only_snapshot(v, repo, name, sizeof(name))) {
		err = take_snapshot(v, repo, name, f);
	}
	return err;
}

static int take_hub_cache(const struct view *v, const struct cmdline *c,
			  struct config_file *f)
{
	static const struct {
		const char *variable, *below;
	} places[] = {
		{ "HF_HUB_CACHE", "" },
		{ "HUGGINGFACE_HUB_CACHE", "" },
		{ "HF_HOME", "/hub" },
		{ "XDG_CACHE_HOME", "/huggingface/hub" },
	};
	char hub[PATH_MAX];
	int err = -ENOENT;

	if (c->download_dir[0])
		err = take_hub(v, c->download_dir, c, f);
	for (size_t i = 0; err && i < sizeof(places) / sizeof(places[0]); i++) {
		const char *base = view_env(v, places[i].variable);

		if (base &&
		    path_make(hub, sizeof(hub), "%s%s", base, places[i].below))
			err = take_hub(v, hub, c, f);
	}
	if (err &&
	    path_make(hub, sizeof(hub), "%s/.cache/huggingface/hub", v->home))
		err = take_hub(v, hub, c, f);
	return err;
}

/* ModelScope writes '.' in a model's name as "___" in its cache. */
static int take_modelscope(const struct view *v, const struct cmdline *c,
			   struct config_file *f)
{
	const char *cache = view_env(v, "MODELSCOPE_CACHE");
	char base[PATH_MAX], name[sizeof(c->model) * 3], path[PATH_MAX];
	size_t n = 0;
	int err = -ENOENT;

	for (const char *p = c->model; *p; p++)
		if (*p == '.' && strchr(c->model, '/') < p)
			n += (size_t)sprintf(name + n, "___");
		else
			name[n++] = *p;
	name[n] = '\0';
	if (!strchr(name, '/') ||
	    !(cache ? path_make(base, sizeof(base), "%s", cache)
		    : path_make(base, sizeof(base), "%s/.cache/modelscope",
				v->home)))
		return -ENOENT;
	for (int i = 0; err && i < 2; i++)
		if (path_make(path, sizeof(path), "%s/%s%s", base,
			      i ? "" : "hub/", "models/") &&
		    path_make(path + strlen(path), sizeof(path) - strlen(path),
			      "%s", name))
			err = take_path(v, path, f);
	return err;
}

static void say_origin(const struct view *v, const struct cmdline *c,
		       struct config_file *f, const char *origin)
{
	const char *overrides = "";

	if (c->overrides[0])
		overrides = ", with the overrides on its command line";
	if (c->overrides_unknown ||
	    (c->overrides[0] &&
	     config_override(&f->json, &f->json_bytes, c->overrides)))
		overrides = ", without the overrides on its command line";
	snprintf(f->origin, sizeof(f->origin), "%s%s%s%s", origin,
		 v->cwd_hidden ? ", as seen from here" : "", overrides,
		 c->no_weights ? ", dummy weights" : "");
}

static int find_in(const struct view *v, const struct cmdline *c,
		   struct config_file *f)
{
	const char *origin = "--hf-config-path of the server";
	int err = -ENOENT;

	if (c->hf_config_path[0])
		err = take_path(v, c->hf_config_path, f);
	if (err && c->model[0]) {
		origin = "model path of the server";
		err = take_path(v, c->model, f);
	}
	if (err && c->model[0]) {
		origin = "Hugging Face cache of the server";
		err = take_hub_cache(v, c, f);
	}
	if (err && c->model[0]) {
		origin = "ModelScope cache of the server";
		err = take_modelscope(v, c, f);
	}
	if (!err)
		say_origin(v, c, f, origin);
	return err;
}

/* ---- interface ---------------------------------------------------------- */

int config_file_find(pid_t pid, const struct cmdline *c,
		     struct config_file *out)
{
	struct config_file f = { 0 };
	struct view v;
	int err = view_open(&v, pid);

	if (err)
		return err;
	err = find_in(&v, c, &f);
	view_close(&v);
	if (err)
		config_file_free(&f);
	else
		*out = f;
	return err;
}

void config_file_free(struct config_file *f)
{
	free(f->json);
	free(f->quant);
	*f = (struct config_file){ 0 };
}

int server_file_load(pid_t pid, const char *path, size_t max, char **data,
		     size_t *bytes)
{
	struct view v;
	int err = view_open(&v, pid);

	if (err)
		return err;
	err = view_load(&v, path, max, data, bytes);
	view_close(&v);
	return err;
}
