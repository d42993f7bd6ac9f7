/*
 * negotiate.h - which format and encoding a client wants
 *
 * Accept and Accept-Encoding by RFC 9110: quality values, wildcards, the
 * parameters version, proto, encoding and escaping.  The headers are hostile.
 */
#ifndef MOETOP_EXPORTER_NEGOTIATE_H
#define MOETOP_EXPORTER_NEGOTIATE_H

#include <stdbool.h>

enum wire_format {
	WIRE_PROMETHEUS,
	WIRE_OPENMETRICS,
	WIRE_PROTOBUF,
	WIRE_FORMATS
};

struct wanted {
	enum wire_format format;
	/* how names that are not plain ASCII are to be told; ours all are, so
	 * that it is only said again: "allow-utf-8", ...; NULL not asked */
	const char *escaping;
};

/* The format with the highest quality, the first of equal ones; the text format
 * when accept is NULL, nonsense, or asks for nothing that there is. */
void negotiate_format(const char *accept, struct wanted *out);

/* Is gzip accepted?  NULL: no. */
bool negotiate_gzip(const char *accept_encoding);

#endif
