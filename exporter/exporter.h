/*
 * exporter.h - a snapshot as text, and over HTTP
 *
 * The formats are functions from a snapshot to bytes.  The HTTP end holds one
 * rendered snapshot, so a scrape is consistent and costs a copy.
 */
#ifndef MOETOP_EXPORTER_EXPORTER_H
#define MOETOP_EXPORTER_EXPORTER_H

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
extern const struct format format_json;       /* one line with its '\n' */
extern const struct format format_prometheus; /* text format 0.0.4 */

/* ---- HTTP -------------------------------------------------------------- */

struct http;

/*
 * Serve /metrics, /snapshot.json, /healthz and / on "PORT", "ADDR:PORT" or
 * "[ADDR6]:PORT"; the default address is 127.0.0.1.  Runs no thread: the
 * caller polls http_fd and calls http_run.  -EINVAL bad address, -EADDRINUSE,
 * -EACCES, -errno; why gets one line.
 */
int http_open(struct http **out, const char *listen, char *why,
	      size_t why_bytes);
int http_fd(const struct http *h);
void http_run(struct http *h);
/* Milliseconds until http_run wants to be called anyway, -1: no limit. */
int http_timeout_ms(const struct http *h);
/* The port in use (a listen of port 0 picks one). */
uint16_t http_port(const struct http *h);
/* From now on serve this one; renders at once, keeps no reference. */
void http_publish(struct http *h, const struct snapshot *s);
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
