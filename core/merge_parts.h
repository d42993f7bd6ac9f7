/*
 * merge_parts.h - shared by merge.c and merge_sums.c; nobody else's business
 */
#ifndef MOETOP_CORE_MERGE_PARTS_H
#define MOETOP_CORE_MERGE_PARTS_H

#include "core/merge.h"

void merge_add_rows(struct sample_rows *to, const struct sample_rows *from);
void merge_add_class(struct sample_class *to, const struct sample_class *from);
/* Add to the class's entry of a layer, made if new; what finds no room is in the
 * layer's time all the same. */
void merge_add_layer_class(struct sample_layer *to,
			   const struct sample_layer_class *from);
void merge_add_clusters(struct sample_clusters *to,
			const struct sample_clusters *from);
/* Another window of the same rank. */
void merge_add_window(struct sample_window *to,
		      const struct sample_window *from);
/* Layers that *to has not seen begin at nothing. */
void merge_grow(struct sample_window *to, unsigned n_layers);
/* The entry of a class, made if new; NULL when there is no room. */
struct sample_class *merge_find_class(struct sample_window *w, const char *name,
				      unsigned group);
/* What comes after the first `layers` is a draft model's. */
void merge_split_layers(struct sample_window *w, unsigned layers);

#endif
