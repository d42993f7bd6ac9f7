#include "exporter/json_write.h"

#include <inttypes.h>
#include <string.h>

void jput_separate(struct text *t)
{
	if (t->bytes && !strchr("{[:\n", t->data[t->bytes - 1]))
		text_write(t, ",", 1);
}

void jput_key(struct text *t, const char *name)
{
	jput_separate(t);
	text_printf(t, "\"%s\":", name);
}

void jput_begin(struct text *t, char bracket)
{
	jput_separate(t);
	text_write(t, &bracket, 1);
}

void jput_end(struct text *t, char bracket)
{
	text_write(t, &bracket, 1);
}

void jput_string(struct text *t, const char *name, const char *s)
{
	jput_key(t, name);
	if (!s || !*s) {
		text_printf(t, "null");
		return;
	}
	text_write(t, "\"", 1);
	text_json(t, s);
	text_write(t, "\"", 1);
}

void jput_double(struct text *t, const char *name, double v)
{
	jput_key(t, name);
	if (isfinite(v))
		text_number(t, v);
	else
		text_printf(t, "null");
}

void jput_value(struct text *t, const char *name, struct value x)
{
	jput_double(t, name, printable(x) ? x.v : NAN);
}

void jput_count(struct text *t, const char *name, uint64_t n)
{
	jput_key(t, name);
	text_printf(t, "%" PRIu64, n);
}

void jput_known(struct text *t, const char *name, uint64_t n)
{
	if (n)
		jput_count(t, name, n);
	else
		jput_string(t, name, NULL);
}

void jput_pid(struct text *t, int32_t pid)
{
	jput_known(t, "pid", pid > 0 ? (uint64_t)pid : 0);
}

void jput_name(struct text *t, const char *name)
{
	jput_separate(t);
	text_printf(t, "\"%s\"", name);
}
