#include "bpf/paths.h"

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "bpf/endpoints.h"
#include "bpf/huffman.h"

static int teach(struct paths *p, uint64_t hash, enum endpoint endpoint)
{
	uint8_t value = (uint8_t)endpoint;
	int err = bpf_map_update_elem(p->map, &hash, &value, BPF_NOEXIST);

	if (!err)
		p->taught++;
	/* EEXIST: shipped twice, or learnt by the program itself */
	return err && errno != EEXIST ? -errno : 0;
}

static int teach_both(struct paths *p, const struct endpoint_path *known)
{
	uint8_t coded[2 * PATH_TAIL_BYTES];
	size_t bytes = strlen(known->path), n;
	int err = huffman_encode(known->path, bytes, coded, sizeof(coded), &n);

	if (!err)
		err = teach(p, endpoints_hash((const char *)coded, n),
			    known->endpoint);
	if (!err)
		err = teach(p, endpoints_hash(known->path, bytes),
			    known->endpoint);
	return err;
}

int paths_init(struct paths *p, int map)
{
	size_t n;
	const struct endpoint_path *known = endpoints_table(&n);
	int err = 0;

	*p = (struct paths){ .map = map };
	for (size_t i = 0; i < n && !err; i++)
		err = teach_both(p, &known[i]);
	return err;
}

bool paths_learn(struct paths *p, const struct path_record *r)
{
	char tail[PATH_TAIL_BYTES];
	uint32_t n = r->bytes < PATH_TAIL_BYTES ? r->bytes : PATH_TAIL_BYTES;
	enum endpoint e;

	for (uint32_t i = 0; i < n; i++)
		tail[i] = r->tail[(r->bytes - n + i) % PATH_TAIL_BYTES];
	e = r->coded ? endpoints_classify_coded((const uint8_t *)tail, n,
						n == r->bytes)
		     : endpoints_classify(tail, n);
	teach(p, r->hash, e);
	return p->taught < PATHS_MAX / 2;
}
