/*
 * vectors.h - the test vectors of the reference arithmetic, as a group fixture
 */
#ifndef MOETOP_TESTS_MODEL_VECTORS_H
#define MOETOP_TESTS_MODEL_VECTORS_H

#include <jansson.h>

#define REL 1e-12 /* what C may differ from them, relative */

static json_t *vectors;

static int load(void **state)
{
	json_error_t error;

	(void)state;
	vectors = json_load_file("tests/data/test_vectors.json", 0, &error);
	return vectors ? 0 : -1;
}

static int unload(void **state)
{
	(void)state;
	json_decref(vectors);
	return 0;
}

#endif
