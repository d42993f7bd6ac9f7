/*
 * bundle_parts.h - what goes into a bundle, as text
 *
 * Internal to core/bundle*.c.  Each part writes what may be collected at all;
 * the bundle scrubs it.
 */
#ifndef MOETOP_CORE_BUNDLE_PARTS_H
#define MOETOP_CORE_BUNDLE_PARTS_H

#include <stdio.h>

#include "core/doctor.h"
#include "core/scrub.h"

/* Collect the words that must not be in it: environments and keys of moetop and
 * of the server, names of this host, of its users and of the folders. */
void bundle_words(struct scrub *s, const struct doctor *d);

void bundle_versions(const struct doctor *d, FILE *f);
void bundle_processes(const struct doctor *d, FILE *f);
void bundle_kernels(const struct doctor *d, FILE *f);
/* From another moetop that watches the server for a second. */
void bundle_snapshots(const struct doctor *d, FILE *f);

#endif
