#include "model/value.h"

#include <stddef.h>

const char *value_state_name(enum value_state s)
{
	switch (s) {
	case VALUE_WARMING:
		return "warming";
	case VALUE_STALE:
		return "stale";
	case VALUE_OK:
		return "ok";
	case VALUE_NO_DATA:
		break;
	}
	return "no_data";
}

const char *value_source_name(enum value_source s)
{
	switch (s) {
	case SOURCE_INFERRED:
		return "inferred";
	case SOURCE_MODELLED:
		return "modelled";
	case SOURCE_SCRAPED:
		return "scraped";
	case SOURCE_MEASURED:
	case SOURCES:
		break;
	}
	return "measured";
}
