/* Accept and Accept-Encoding, as scrapers, browsers and nobody send them. */
#include "exporter/negotiate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define PROTO                              \
	"application/vnd.google.protobuf;" \
	"proto=io.prometheus.client.MetricFamily;encoding=delimited"

static const struct {
	const char *accept;
	enum wire_format format;
	const char *escaping;
} cases[] = {
	{ NULL, WIRE_PROMETHEUS, NULL },
	{ "", WIRE_PROMETHEUS, NULL },
	{ "*/*", WIRE_PROMETHEUS, NULL },
	{ "text/plain", WIRE_PROMETHEUS, NULL },
	{ "text/html,application/xhtml+xml,*/*;q=0.8", WIRE_PROMETHEUS, NULL },
	{ "image/png", WIRE_PROMETHEUS, NULL },
	{ "application/json", WIRE_PROMETHEUS, NULL },
	/* Prometheus 2.42, without and with native histograms */
	{ "application/openmetrics-text;version=1.0.0,application/"
	  "openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;"
	  "q=0.5,*/*;q=0.1",
	  WIRE_OPENMETRICS, NULL },
	{ PROTO ",application/openmetrics-text;version=1.0.0;q=0.8,"
		"application/openmetrics-text;version=0.0.1;q=0.75,text/plain;"
		"version=0.0.4;q=0.5,*/*;q=0.1",
	  WIRE_PROTOBUF, NULL },
	/* Prometheus 3 */
	{ "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;"
	  "q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;"
	  "version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;"
	  "q=0.3,*/*;q=0.2",
	  WIRE_OPENMETRICS, "allow-utf-8" },
	{ "text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.2",
	  WIRE_PROMETHEUS, NULL },
	{ "application/openmetrics-text", WIRE_OPENMETRICS, NULL },
	{ "APPLICATION/OpenMetrics-Text; Version=\"1.0.0\"", WIRE_OPENMETRICS,
	  NULL },
	{ "application/openmetrics-text;version=2.0.0", WIRE_PROMETHEUS, NULL },
	{ "application/openmetrics-text;version=0.0.1", WIRE_PROMETHEUS, NULL },
	{ "application/openmetrics-text;q=0", WIRE_PROMETHEUS, NULL },
	{ "application/openmetrics-text;q=0,text/plain;q=0.1", WIRE_PROMETHEUS,
	  NULL },
	{ "application/openmetrics-text;q=1.5,text/plain;q=0.1",
	  WIRE_PROMETHEUS, NULL },
	{ "application/openmetrics-text;q=x,text/plain;q=0.1", WIRE_PROMETHEUS,
	  NULL },
	{ "text/plain;q=0.001,application/openmetrics-text;q=0.002",
	  WIRE_OPENMETRICS, NULL },
	{ "application/vnd.google.protobuf;proto=io.prometheus.client."
	  "MetricFamily;encoding=text",
	  WIRE_PROMETHEUS, NULL },
	{ "application/vnd.google.protobuf;proto=other;encoding=delimited",
	  WIRE_PROMETHEUS, NULL },
	{ "application/vnd.google.protobuf", WIRE_PROTOBUF, NULL },
	{ "text/plain;escaping=values", WIRE_PROMETHEUS, "values" },
	{ "text/plain;escaping=\r\nX-Evil: 1", WIRE_PROMETHEUS, NULL },
	{ ",,;;=;q=,\"", WIRE_PROMETHEUS, NULL },
	{ "text/plain;a=\",application/openmetrics-text\"", WIRE_PROMETHEUS,
	  NULL },
	{ "text/plain;q=0.5;a=\"\\\"\",application/openmetrics-text",
	  WIRE_OPENMETRICS, NULL },
};

static void formats(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct wanted w;

		negotiate_format(cases[i].accept, &w);
		if (w.format != cases[i].format)
			fail_msg("%s gave %d", cases[i].accept, w.format);
		if (cases[i].escaping)
			assert_string_equal(w.escaping, cases[i].escaping);
		else
			assert_null(w.escaping);
	}
}

static void encodings(void **state)
{
	static const struct {
		const char *accept;
		bool gzip;
	} all[] = {
		{ NULL, false },
		{ "", false },
		{ "gzip", true },
		{ "GZIP", true },
		{ "deflate, gzip;q=1.0, *;q=0.5", true },
		{ "gzip;q=0", false },
		{ "gzip;q=0, *", false },
		{ "*", true },
		{ "*;q=0", false },
		{ "identity", false },
		{ "br;q=1.0, gzip ; q=0.001", true },
		{ "gzipped", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (negotiate_gzip(all[i].accept) != all[i].gzip)
			fail_msg("%s", all[i].accept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats),
		cmocka_unit_test(encodings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
