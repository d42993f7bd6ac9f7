/*
 * popularity.h - a table of how often real traffic picks each expert
 */
#ifndef MOETOP_SIM_SERVER_POPULARITY_H
#define MOETOP_SIM_SERVER_POPULARITY_H

#include <stddef.h>

struct popularity;

/*
 * file: numbers > 0 apart by commas or blanks, a line a layer, all lines of the
 * same length; lines that begin with # are skipped.  NULL: the built-in table.
 * 0, -ENOMEM, -errno of the file, -EINVAL; why gets one line.
 */
int popularity_new(struct popularity **out, const char *file, char *why,
		   size_t why_bytes);
void popularity_free(struct popularity *p);

/* The weight of any (layer, expert): beyond the table, that of another layer. */
double popularity_at(const struct popularity *p, unsigned layer,
		     unsigned expert);

#endif
