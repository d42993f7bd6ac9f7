#include "core/identity.h"
#include "target/container.h"
#include "target/proc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRON_BYTES 65536u
#define NAMESPACE_FILE "root/run/secrets/kubernetes.io/serviceaccount/namespace"
#define NAMESPACE_FILE_OLD \
	"root/var/run/secrets/kubernetes.io/serviceaccount/namespace"

/* The value of a variable in a block of NUL-separated ones, or NULL. */
static const char *variable(const char *env, size_t bytes, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = env; p < env + bytes; p += strlen(p) + 1)
		if (!strncmp(p, name, n) && p[n] == '=')
			return p + n + 1;
	return NULL;
}

/* A name of Kubernetes: what else is in the file is not one. */
static void copy_name(char *out, size_t room, const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-");

	if (n < room && (!s[n] || isspace((unsigned char)s[n])))
		snprintf(out, room, "%.*s", (int)n, s);
}

static void read_namespace(struct identity *i, const char *env, size_t bytes)
{
	const char *said = variable(env, bytes, "POD_NAMESPACE");
	char text[128];

	if (said) {
		copy_name(i->pod_namespace, sizeof(i->pod_namespace), said);
		return;
	}
	if (proc_read(i->pid, NAMESPACE_FILE, text, sizeof(text)) > 0 ||
	    proc_read(i->pid, NAMESPACE_FILE_OLD, text, sizeof(text)) > 0)
		copy_name(i->pod_namespace, sizeof(i->pod_namespace), text);
}

static void read_container(struct identity *i, const char *env, size_t bytes)
{
	struct container c = { 0 };

	container_read(i->pid, env, bytes, &c);
	container_describe(&c, i->container, sizeof(i->container));
	snprintf(i->id, sizeof(i->id), "%.12s", c.id);
	if (!c.pod_uid[0])
		return;
	snprintf(i->pod, sizeof(i->pod), "%s",
		 c.pod_name[0] ? c.pod_name : c.pod_uid);
	read_namespace(i, env, bytes);
}

void identity_read(struct identity *i, pid_t pid)
{
	char *env = malloc(ENVIRON_BYTES);
	uint32_t theirs = proc_netns(pid), ours = proc_netns(getpid());
	ssize_t n = env ? proc_read(pid, "environ", env, ENVIRON_BYTES) : 0;

	*i = (struct identity){ .pid = pid, .distinguished = i->distinguished };
	i->own_network = theirs && ours && theirs != ours;
	read_container(i, n > 0 ? env : "", n > 0 ? (size_t)n : 0);
	free(env);
}

void identity_fill(const struct identity *i, struct snapshot_target *out)
{
	const char *engine = out->engine[0] ? out->engine : "server";
	char who[64], where[24];

	if (i->pod[0])
		snprintf(who, sizeof(who), "%s", i->pod);
	else if (i->own_network && i->id[0])
		snprintf(who, sizeof(who), "%s-%s", engine, i->id);
	else
		snprintf(who, sizeof(who), "%s", engine);
	if (out->port)
		snprintf(where, sizeof(where), "%u", out->port);
	else
		snprintf(where, sizeof(where), "pid-%d", (int)out->pid);
	snprintf(out->server, sizeof(out->server), "%s:%s", who, where);
	if (i->distinguished && out->port) {
		size_t n = strlen(out->server);

		snprintf(out->server + n, sizeof(out->server) - n, "-%d",
			 (int)out->pid);
	}
	snprintf(out->pod, sizeof(out->pod), "%s", i->pod);
	snprintf(out->pod_namespace, sizeof(out->pod_namespace), "%s",
		 i->pod_namespace);
	if (!out->container[0])
		snprintf(out->container, sizeof(out->container), "%s",
			 i->container);
}
