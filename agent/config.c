#include "agent/config.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static const struct {
	const char *name;
	size_t offset;
	uint32_t value, least, most;
} settings[] = {
#define CONFIG(member, name, value, least, most, help) \
	{ name, offsetof(struct config, member), value, least, most },
	CONFIG_TABLE
#undef CONFIG
};

static bool parse(const char *text, uint32_t least, uint32_t most,
		  uint32_t *out)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || v < least ||
	    v > most)
		return false;
	*out = (uint32_t)v;
	return true;
}

void config_read(struct config *c, const char **wrong)
{
	*wrong = NULL;
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		uint32_t *v =
			(uint32_t *)(void *)((char *)c + settings[i].offset);
		const char *text = getenv(settings[i].name);

		*v = settings[i].value;
		if (text &&
		    !parse(text, settings[i].least, settings[i].most, v) &&
		    !*wrong)
			*wrong = settings[i].name;
	}
}
