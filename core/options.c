#include "core/options.h"

#include <string.h>

_Static_assert(sizeof(((struct snapshot_option *)0)->name) ==
			       sizeof(((struct launch_option *)0)->name) &&
		       sizeof(((struct snapshot_option *)0)->value) ==
			       sizeof(((struct launch_option *)0)->value),
	       "options are copied whole");

void options_put(struct snapshot_target *to, const struct launch *l)
{
	to->n_options = 0;
	for (unsigned i = 0; i < l->n && i < SNAPSHOT_OPTIONS_MAX; i++) {
		struct snapshot_option *o = &to->options[to->n_options++];

		memcpy(o->name, l->list[i].name, sizeof(o->name));
		memcpy(o->value, l->list[i].value, sizeof(o->value));
	}
}
