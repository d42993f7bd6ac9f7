#include "target/config_override.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int config_override(char **json, size_t *bytes, const char *overrides)
{
	json_t *base = json_loadb(*json, *bytes, 0, NULL);
	json_t *over = json_loads(overrides, 0, NULL);
	int err = json_is_object(base) && json_is_object(over) ? 0 : -EINVAL;
	char *text = NULL;

	if (!err && json_object_update_recursive(base, over))
		err = -ENOMEM;
	if (!err)
		text = json_dumps(base, JSON_COMPACT | JSON_PRESERVE_ORDER);
	if (!err && !text)
		err = -ENOMEM;
	if (!err) {
		free(*json);
		*json = text;
		*bytes = strlen(text);
	}
	json_decref(base);
	json_decref(over);
	return err;
}
