#include "sim/server/reply.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CHUNK_DIGITS_MAX 8u

enum state { HEAD, SIZE, SIZE_END, DATA, DATA_END, TRAILER, LENGTH, ENDED };

void reply_start(struct reply *r)
{
	r->state = HEAD;
	r->status = 0;
	r->chunked = r->close = false;
	r->chunk_bytes = r->left = r->chunks = 0;
	r->head_bytes = 0;
}

bool reply_begun(const struct reply *r)
{
	return r->state != HEAD || r->head_bytes;
}

bool reply_has_head(const struct reply *r)
{
	return r->state != HEAD;
}

static bool has_word(const char *value, const char *word)
{
	size_t n = strlen(word);

	for (; *value && *value != '\r'; value++)
		if (!strncasecmp(value, word, n))
			return true;
	return false;
}

static bool parse_length(const char *value, uint64_t *out)
{
	char *end;

	value += strspn(value, " \t");
	if (!isdigit((unsigned char)*value))
		return false;
	*out = strtoull(value, &end, 10);
	return *end == '\r';
}

/* The head is whole and NUL-terminated. */
static bool parse_head(struct reply *r)
{
	bool length = false;
	char *line = r->head, *end;

	if (strncmp(line, "HTTP/1.1 ", 9) && strncmp(line, "HTTP/1.0 ", 9))
		return false;
	r->close = line[7] == '0';
	r->status = (unsigned)strtoul(line + 9, &end, 10);
	if (end != line + 12 || r->status < 100)
		return false;
	while ((line = strchr(line, '\n'))) {
		line++;
		if (!strncasecmp(line, "content-length:", 15)) {
			if (!parse_length(line + 15, &r->left))
				return false;
			length = true;
		} else if (!strncasecmp(line, "transfer-encoding:", 18)) {
			r->chunked = has_word(line + 18, "chunked");
		} else if (!strncasecmp(line, "connection:", 11)) {
			r->close = has_word(line + 11, "close");
		}
	}
	if (r->chunked)
		r->state = SIZE;
	else if (length || r->status == 204 || r->status == 304)
		r->state = r->left ? LENGTH : ENDED;
	else
		return false;
	return true;
}

static enum reply_event take_head(struct reply *r, const char **data,
				  size_t *bytes)
{
	while (*bytes) {
		if (r->head_bytes + 1 >= REPLY_HEAD_BYTES)
			return REPLY_BAD;
		r->head[r->head_bytes++] = *(*data)++;
		--*bytes;
		if (r->head_bytes < 4 ||
		    memcmp(r->head + r->head_bytes - 4, "\r\n\r\n", 4))
			continue;
		r->head[r->head_bytes] = 0;
		return parse_head(r) ? REPLY_HEAD : REPLY_BAD;
	}
	return REPLY_MORE;
}

/* Pass over the rest of a chunk or body. */
static void skip(struct reply *r, const char **data, size_t *bytes)
{
	size_t n = r->left < *bytes ? (size_t)r->left : *bytes;

	*data += n;
	*bytes -= n;
	r->left -= n;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of a chunk's size line, or of what stands between chunks. */
static enum reply_event take_framing(struct reply *r, char c)
{
	int d = digit(c);

	switch (r->state) {
	case SIZE:
		if (d >= 0) {
			if (r->left >> (4 * (CHUNK_DIGITS_MAX - 1)))
				return REPLY_BAD;
			r->left = r->left * 16 + (unsigned)d;
			return REPLY_MORE;
		}
		r->state = SIZE_END;
		/* fall through */
	case SIZE_END:
		if (c != '\n')
			return REPLY_MORE;
		if (!r->left) {
			r->state = TRAILER;
			r->head_bytes = 0;
			return REPLY_MORE;
		}
		r->state = DATA;
		r->chunk_bytes = r->left;
		r->chunks++;
		return REPLY_CHUNK;
	case DATA_END:
		if (c == '\n')
			r->state = SIZE;
		return c == '\n' || c == '\r' ? REPLY_MORE : REPLY_BAD;
	default: /* TRAILER: lines up to an empty one */
		if (c == '\n' && !r->head_bytes)
			r->state = ENDED;
		if (c != '\r')
			r->head_bytes = c != '\n';
		return REPLY_MORE;
	}
}

enum reply_event reply_next(struct reply *r, const char **data, size_t *bytes)
{
	for (;;) {
		enum reply_event e = REPLY_MORE;

		if (r->state == ENDED)
			return REPLY_END;
		if (!*bytes)
			return REPLY_MORE;
		switch (r->state) {
		case HEAD:
			return take_head(r, data, bytes);
		case LENGTH:
			skip(r, data, bytes);
			if (!r->left)
				r->state = ENDED;
			break;
		case DATA:
			skip(r, data, bytes);
			if (!r->left)
				r->state = DATA_END;
			break;
		default:
			e = take_framing(r, *(*data)++);
			--*bytes;
		}
		if (e != REPLY_MORE)
			return e;
	}
}
