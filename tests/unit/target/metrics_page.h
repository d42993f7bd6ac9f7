/*
 * metrics_page.h - a recorded metrics page from a file, with or without the
 * HTTP head that it came with
 */
#ifndef MOETOP_TESTS_METRICS_PAGE_H
#define MOETOP_TESTS_METRICS_PAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES_MAX (8u << 20)

/* Chunks put together, in place; the new length. */
static size_t page_join(char *text, size_t n)
{
	size_t in = 0, out = 0;

	while (in < n) {
		char *end;
		size_t size = strtoul(text + in, &end, 16);

		end = memchr(end, '\n', n - (size_t)(end - text));
		if (!size || !end)
			break;
		in = (size_t)(end - text) + 1;
		if (size > n - in)
			size = n - in;
		memmove(text + out, text + in, size);
		out += size;
		in += size;
		while (in < n && (text[in] == '\r' || text[in] == '\n'))
			in++;
	}
	return out;
}

static size_t page_body(char *text, size_t n)
{
	const char *const ends[] = { "\r\n\r\n", "\n\n" };

	if (n < 5 || memcmp(text, "HTTP/", 5) != 0)
		return n;
	for (size_t i = 0; i < 2; i++) {
		size_t skip = strlen(ends[i]);
		char *end = memmem(text, n, ends[i], skip);
		int chunked;

		if (!end)
			continue;
		*end = '\0';
		chunked = strcasestr(text, "transfer-encoding: chunked") != 0;
		n -= (size_t)(end - text) + skip;
		memmove(text, end + skip, n);
		text[n] = '\0';
		return chunked ? page_join(text, n) : n;
	}
	return 0;
}

/* The body, to be freed; NULL when it cannot be read. */
static char *page_read(const char *path, size_t *bytes)
{
	char *text = malloc(PAGE_BYTES_MAX + 1);
	FILE *f = fopen(path, "re");

	if (!f || !text) {
		free(text);
		if (f)
			fclose(f);
		return NULL;
	}
	*bytes = fread(text, 1, PAGE_BYTES_MAX, f);
	fclose(f);
	text[*bytes] = '\0';
	*bytes = page_body(text, *bytes);
	return text;
}

#endif
