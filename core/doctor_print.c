#include "core/doctor.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

void doctor_print(const struct doctor *d, FILE *f)
{
	for (unsigned i = 0; i < d->n; i++) {
		const struct doctor_line *l = &d->lines[i];
		const char *tier = doctor_tier_name(l->tier);
		bool summary = !strcmp(l->id, tier);

		if (summary && i && !strcmp(tier, doctor_tier_name(TIER_T0)))
			fputc('\n', f);
		fprintf(f, "%-3s %-8s %-19s %s%s%s\n", tier,
			doctor_state_name(l->state), summary ? "" : l->id,
			l->what, l->remedy[0] ? "; " : "", l->remedy);
	}
}

static json_t *line_json(const struct doctor_line *l)
{
	return json_pack("{s:s, s:s, s:s, s:b, s:s, s:s}", "id", l->id, "tier",
			 doctor_tier_name(l->tier), "state",
			 doctor_state_name(l->state), "ok",
			 (int)(l->state == DOCTOR_OK), "what", l->what,
			 "remedy", l->remedy);
}

/* What comes from others need not be UTF-8. */
static struct doctor_line clean(const struct doctor_line *l)
{
	struct doctor_line c = *l;
	char *const texts[] = { c.what, c.remedy };

	for (size_t t = 0; t < 2; t++) {
		json_t *ok = json_string(texts[t]);

		if (ok) {
			json_decref(ok);
			continue;
		}
		for (char *p = texts[t]; *p; p++)
			if ((unsigned char)*p > 0x7e)
				*p = '?';
	}
	return c;
}

int doctor_print_json(const struct doctor *d, unsigned asked, FILE *f)
{
	json_t *list = json_array(), *tiers = json_object();
	json_t *wanted = json_array(), *root;

	for (unsigned i = 0; i < d->n; i++) {
		const struct doctor_line l = clean(&d->lines[i]);

		json_array_append_new(list, line_json(&l));
		if (!strcmp(l.id, doctor_tier_name(l.tier)))
			json_object_set_new(tiers, l.id, line_json(&l));
	}
	for (unsigned t = 0; t < SNAPSHOT_TIERS; t++)
		if (asked >> t & 1)
			json_array_append_new(
				wanted,
				json_string(doctor_tier_name((enum tier)t)));
	root = json_pack("{s:s, s:o, s:b, s:o, s:o}", "version", MOETOP_VERSION,
			 "asked", wanted, "ok", (int)doctor_works(d, asked),
			 "tiers", tiers, "checks", list);
	if (!root)
		return -ENOMEM;
	json_dumpf(root, f, JSON_COMPACT);
	json_decref(root);
	fputc('\n', f);
	return 0;
}
