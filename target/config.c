#include "target/config.h"

#include "target/config_override.h"
#include "target/model_config.h"
#include "target/server_files.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REF_BYTES 128u

/* ---- places ------------------------------------------------------------- */

static int take_file(const struct server_files *v, const char *path,
		     struct config_file *f)
{
	char quant[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int err = server_files_load(v, path, MODEL_CONFIG_BYTES_MAX, &f->json,
				    &f->json_bytes);

	if (err)
		return err;
	if (!path_make(f->path, sizeof(f->path), "%s", path))
		f->path[0] = '\0'; /* too long to show */
	if (path_make(quant, sizeof(quant), "%.*s%shf_quant_config.json",
		      slash ? (int)(slash - path) : 0, path, slash ? "/" : ""))
		server_files_load(v, quant, MODEL_CONFIG_BYTES_MAX, &f->quant,
				  &f->quant_bytes);
	return 0;
}

/* A directory with a config.json, or a JSON file. */
static int take_path(const struct server_files *v, const char *path,
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

struct entries {
	unsigned n;
	char name[REF_BYTES]; /* the last one */
};

static bool take_entry(void *cls, const char *name)
{
	struct entries *e = cls;

	e->n += path_make(e->name, sizeof(e->name), "%s", name);
	return e->n > 1;
}

/* The one entry of DIR/snapshots; -ENOENT when there are none or several. */
static int only_snapshot(const struct server_files *v, const char *repo,
			 char *name, size_t room)
{
	struct entries e = { 0 };
	char path[PATH_MAX];

	if (!path_make(path, sizeof(path), "%s/snapshots", repo) ||
	    server_files_list(v, path, take_entry, &e) || e.n != 1)
		return -ENOENT;
	return path_make(name, room, "%s", e.name) ? 0 : -ENOENT;
}

static int take_snapshot(const struct server_files *v, const char *repo,
			 const char *snapshot, struct config_file *f)
{
	char path[PATH_MAX];

	if (!path_make(path, sizeof(path), "%s/snapshots/%s", repo, snapshot))
		return -ENOENT;
	return take_path(v, path, f);
}

static int take_hub(const struct server_files *v, const char *hub,
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
	err = server_files_load(v, path, REF_BYTES - 1, &ref, &bytes);
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

static int take_hub_cache(const struct server_files *v, const struct cmdline *c,
			  struct config_file *f)
{
	static const struct {
		const char *variable, *below;
	} places[] = {
		{ "HF_HUB_CACHE", "" },
		{ "HUGGINGFACE_HUB_CACHE", "" },
		{ "HF_HOME", "/hub" },
		{ "TRANSFORMERS_CACHE", "" },
		{ "XDG_CACHE_HOME", "/huggingface/hub" },
	};
	char hub[PATH_MAX];
	int err = -ENOENT;

	if (c->download_dir[0])
		err = take_hub(v, c->download_dir, c, f);
	for (size_t i = 0; err && i < sizeof(places) / sizeof(places[0]); i++) {
		const char *base = server_files_env(v, places[i].variable);

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
static int take_modelscope(const struct server_files *v,
			   const struct cmdline *c, struct config_file *f)
{
	const char *cache = server_files_env(v, "MODELSCOPE_CACHE");
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

static void say_origin(const struct server_files *v, const struct cmdline *c,
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

static int find_in(const struct server_files *v, const struct cmdline *c,
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
	struct server_files v;
	int err = server_files_open(&v, pid);

	if (err)
		return err;
	err = find_in(&v, c, &f);
	server_files_close(&v);
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
	struct server_files v;
	int err = server_files_open(&v, pid);

	if (err)
		return err;
	err = server_files_load(&v, path, max, data, bytes);
	server_files_close(&v);
	return err;
}
