/*
 * exporter.h - a snapshot as text, and over HTTP
 *
 * The formats are functions from a snapshot to bytes.  The HTTP end answers
 * from one set of snapshots at a time, so a scrape is consistent.
 */
#ifndef MOETOP_EXPORTER_EXPORTER_H
#define MOETOP_EXPORTER_EXPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model/snapshot.h"

/* Growing text; errors stick, so that a writer checks once at the end. */
struct text {
	char *data; /* NUL-terminated when not NULL */
	size_t bytes, room;
	int error; /* -ENOMEM or -EFBIG (64 MiB) */
};
void text_printf(struct text *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void text_write(struct text *t, const void *data, size_t bytes);
void text_free(struct text *t);

struct format {                   /* one const instance per format */
	const char *name;         /* "prometheus", "json" */
	const char *content_type; /* for HTTP */
	/* Appends; out->error tells whether it fitted. */
	void (*write)(struct text *out, const struct snapshot *s);
};
extern const struct format format_json;        /* one line with its '\n' */
extern const struct format format_prometheus;  /* text format 0.0.4 */
extern const struct format format_openmetrics; /* 1.0 */
extern const struct format format_protobuf;    /* delimited */

/* ---- HTTP -------------------------------------------------------------- */

struct http;

struct http_config {
	/* "PORT", "ADDR:PORT" or "[ADDR6]:PORT", default address 127.0.0.1; a
	 * socket that systemd hands over comes before it */
	const char *listen;
	const char *web_config; /* --web.config.file; NULL: open to all */
	bool all;               /* several servers: /snapshot.json is a list */
	bool experts;           /* rows of every expert in /metrics */
	unsigned series_max;    /* of one server; 0: 5000 */
	double silence_s;       /* without http_turned, then not alive; 0: 60 */
	/* One line about a configuration that has changed, from a thread of
	 * http's own; NULL legal. */
	void (*report)(void *arg, const char *line);
	void *arg;
};

/* Is that an address?  0, or -EINVAL with one line in why. */
int http_check_listen(const char *listen, char *why, size_t why_bytes);

/*
 * Serve /metrics, /snapshot.json, /healthz, /readyz and / from threads of its
 * own.  -EINVAL bad address or configuration, -EADDRINUSE, -EACCES, -errno; why
 * gets one line.
 */
int http_open(struct http **out, const struct http_config *config, char *why,
	      size_t why_bytes);
/* The port in use (a listen of port 0 picks one). */
uint16_t http_port(const struct http *h);
/* From now on serve these, 16 at most; left_out: servers that there are beside
 * them.  Keeps no reference, waits for nobody.  One thread at a time. */
void http_publish(struct http *h, const struct snapshot *const *list,
		  unsigned n, unsigned left_out);
/* The loop that takes the snapshots has turned once more: /healthz is about
 * that.  Any thread. */
void http_turned(struct http *h);
void http_close(struct http *h); /* NULL legal */

/* ---- recordings (wire/snapshot.proto) ---------------------------------- */

struct recorder;
/*
 * Start a new file.  An older recording at path is replaced; any other file
 * that is not empty is left alone: -EEXIST.  -errno; why gets one line.
 */
int recorder_open(struct recorder **out, const char *path, char *why,
		  size_t why_bytes);
/* 0 or -errno; after an error the file ends with the last whole snapshot. */
int recorder_write(struct recorder *r, const struct snapshot *s);
int recorder_close(struct recorder *r); /* NULL legal; 0 or -errno */

struct player;
/* -EBADMSG not a recording, -errno; why gets one line. */
int player_open(struct player **out, const char *path, char *why,
		size_t why_bytes);
/* 1 and *s, 0 at the end, -EBADMSG corrupt or cut off, -errno; *s is unchanged
 * unless 1.  The input is hostile. */
int player_next(struct player *p, struct snapshot *s);
void player_close(struct player *p); /* NULL legal */

#endif
