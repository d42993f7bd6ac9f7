/*
 * metrics_doc.h - docs/METRICS.md, from the tables
 *
 * The document in the tree must equal this text; tests/unit/exporter/
 * test_metrics_doc.c compares them, `make docs` writes it.
 */
#ifndef MOETOP_EXPORTER_METRICS_DOC_H
#define MOETOP_EXPORTER_METRICS_DOC_H

#include "exporter/exporter.h"

void metrics_doc_write(struct text *t);

#endif
