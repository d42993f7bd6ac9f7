/*
 * pm_chips.c - the counters that moetop would sample on every chip
 *
 *	pm_chips LIBCUPTI
 *
 * One line per chip that the library supports: its name, the set of metrics, the
 * passes that this takes; or why there is none.  Needs no GPU.  Exit status 1:
 * the library does not answer (some releases want a driver first).
 */
#include "cupti/pm_host.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

static void tell(const struct pm_api *api, const char *chip)
{
	struct pm_choice c = { 0 };
	int err = pm_choose(api, chip, NULL, &c);

	if (err == -ENOTSUP)
		printf("%s\tno PM sampling on this chip\t0\n", chip);
	else if (err)
		printf("%s\tno DRAM metric on this chip\t0\n", chip);
	else
		printf("%s\t%s\t%d\n", chip, c.set->name,
		       pm_passes(api, chip, (unsigned)(c.set - pm_sets)));
	if (!err)
		pm_choice_free(api, &c);
}

int main(int argc, char **argv)
{
	struct pm_chips chips = { .bytes = PM_BYTES(pm_chips, names) };
	void *library =
		argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	struct pm_api api;

	if (!library || pm_api_find(&api, library) || api.chips(&chips))
		return 1;
	for (size_t i = 0; i < chips.n; i++)
		tell(&api, chips.names[i]);
	return 0;
}
