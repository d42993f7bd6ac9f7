/*
 * recording_large.h - the parts of a snapshot that are arrays of numbers
 *
 * Rows of every expert and kernel classes of every layer change with a window,
 * not with a snapshot.  They are written only when they differ from those of
 * the snapshot before, which both the recorder and the player keep.
 */
#ifndef MOETOP_EXPORTER_RECORDING_LARGE_H
#define MOETOP_EXPORTER_RECORDING_LARGE_H

#include "exporter/recording.h"
#include "exporter/recording_arena.h"

/* Into m, whose layers, draft and histograms are packed already.  before: NULL
 * writes everything. */
void large_pack(struct arena *a, const struct recording_kept *before,
		const struct snapshot *s, Moetop__Snapshot *m);

/* Into s, whose other parts are there already.  before: NULL leaves empty what
 * was not written.  0 or -EBADMSG. */
int large_unpack(const struct recording_kept *before, const Moetop__Snapshot *m,
		 struct snapshot *s);

void buckets_pack(struct arena *a, const struct snapshot_hist *h,
		  Moetop__Histogram *m);
int buckets_unpack(const Moetop__Histogram *m, struct snapshot_hist *h);

void counts_pack(struct arena *a, const struct snapshot_requests *r,
		 Moetop__Requests *m);
int counts_unpack(const Moetop__Requests *m, struct snapshot_requests *r);

#endif
