#include "sim/server/runner_parts.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/gpu/simgpu.h"
#include "sim/server/options.h"
#include "sim/server/rng.h"

#define WARM_UP_ROWS 8u
#define KV_MEMORY_SHARE 0.9
#define QUERY_BLOCK 128u /* rows that share one pass over the KV */

void runner_check(struct runner *r, CUresult e, const char *call)
{
	if (e == CUDA_SUCCESS || r->failed != CUDA_SUCCESS)
		return;
	r->failed = e;
	r->failed_call = call;
	snprintf(r->error, sizeof(r->error), "%s: CUDA error %d", call, e);
}

const char *runner_error(const struct runner *r)
{
	return r->error;
}

uint64_t runner_kv_tokens(const struct runner *r)
{
	return r->kv_tokens;
}

/* ---- one step ------------------------------------------------------------ */

/* What the host knows of a step and the device needs: who the rows are. */
static void fill_input(struct runner *r, const struct sched_step *step,
		       unsigned rows)
{
	struct device_input in = { .tokens = step->tokens, .rows = rows };
	struct device_token *t =
		(struct device_token *)(void *)(r->input + sizeof(in));

	for (unsigned i = 0; i < step->items_n; i++) {
		const struct sched_item *it = &step->items[i];
		uint64_t seq = mix64(r->o.seed ^ mix64(it->seq->id));
		double n = it->count;

		for (uint32_t j = 0; j < it->count; j++, t++) {
			t->token_key = mix64(seq + it->first + j);
			t->seq_key = seq;
		}
		in.kv_tokens += (it->first + n) * ceil(n / QUERY_BLOCK);
		in.score_flop +=
			4.0 * r->o.shape->arch.hidden * n * (it->first + n / 2);
	}
	memcpy(r->input, &in, sizeof(in));
	memset(r->padding, 0, step->tokens);
	memset(r->padding + step->tokens, 1, rows - step->tokens);
}

static void copy_input(struct runner *r, const struct sched_step *step,
		       unsigned rows)
{
	size_t bytes = sizeof(struct device_input) +
		       step->tokens * sizeof(struct device_token);

	fill_input(r, step, rows);
	r->real_rows = (int32_t)step->tokens;
	RUNNER_CALL(r, cuMemcpyHtoDAsync_v2, r->mem.input, r->input, bytes,
		    r->stream);
	RUNNER_CALL(r, cuMemcpyHtoDAsync_v2, r->mem.padding, r->padding, rows,
		    r->stream);
	RUNNER_CALL(r, cuMemcpyHtoDAsync_v2, r->mem.real_rows, &r->real_rows,
		    sizeof(r->real_rows), r->stream);
}

static const struct runner_graph *graph_for(const struct runner *r,
					    const struct sched_step *step)
{
	unsigned size;

	if (step->prefill || !r->graphs)
		return NULL;
	/* Largest first, as they were captured. */
	size = sched_graph_pad(step->tokens, r->graph[0].size);
	for (unsigned i = 0; size && i < r->graphs; i++)
		if (r->graph[i].size == size)
			return &r->graph[i];
	return NULL;
}

/* The end of the run of items that are of the same piece. */
static unsigned piece_end(const struct runner *r, unsigned from, unsigned n)
{
	unsigned to = from + 1;

	while (to < n && r->item[to].piece == r->item[from].piece)
		to++;
	return to;
}

/* Launch what is in r->item, pieces of g as replays. */
static void play(struct runner *r, const struct runner_graph *g, unsigned rows,
		 unsigned n)
{
	for (unsigned i = 0, to; i < n; i = to) {
		int piece = r->item[i].piece;

		to = piece_end(r, i, n);
		if (g && piece >= 0 && (unsigned)piece < g->pieces)
			RUNNER_CALL(r, cuGraphLaunch, g->exec[piece],
				    r->stream);
		else
			runner_launch(r, rows, i, to);
	}
}

int runner_step(struct runner *r, const struct sched_step *step)
{
	const struct runner_graph *g = graph_for(r, step);
	unsigned rows = g ? g->size : step->tokens;
	struct truth_step t = {
		.step = r->steps++,
		.prefill = step->prefill,
		.graph = g != NULL,
	};
	const struct truth_layer *layer;

	copy_input(r, step, rows);
	play(r, g, rows, runner_list(r, rows));
	RUNNER_CALL(r, cuMemcpyDtoHAsync_v2, r->sampled, r->mem.tokens,
		    sizeof(*r->sampled) * step->items_n, r->stream);
	RUNNER_CALL(r, cuStreamSynchronize, r->stream);
	layer = device_take(&t);
	truth_step(r->o.truth, &t, layer,
		   r->o.shape->arch.moe_layers + r->draft_layers);
	return r->failed == CUDA_SUCCESS ? 0 : -EIO;
}

/* ---- start --------------------------------------------------------------- */

/* PyTorch has libcupti in the process before CUDA starts; so have we, the one
 * beside libcuda. */
static void preload_cupti(void)
{
	char path[4096];
	Dl_info cuda;
	const char *end;

	if (!dladdr((const void *)cuInit, &cuda) || !cuda.dli_fname)
		return;
	end = strrchr(cuda.dli_fname, '/');
	if (!end)
		return;
	snprintf(path, sizeof(path), "%.*s/libcupti.so.13",
		 (int)(end - cuda.dli_fname), cuda.dli_fname);
	if (!dlopen(path, RTLD_NOW | RTLD_GLOBAL))
		fprintf(stderr, "moetop-sim: no CUPTI: %s\n", dlerror());
}

static void allocate(struct runner *r, CUdeviceptr *ptr, size_t bytes)
{
	RUNNER_CALL(r, cuMemAlloc_v2, ptr, bytes);
}

static void open_context(struct runner *r)
{
	const struct arch *a = &r->o.shape->arch;
	struct runner_memory *m = &r->mem;
	size_t rows = r->rows_max, total = 0, available = 0;
	double kv;

	RUNNER_CALL(r, cuInit, 0);
	RUNNER_CALL(r, cuDevicePrimaryCtxRetain, &r->context, 0);
	RUNNER_CALL(r, cuCtxSetCurrent, r->context);
	RUNNER_CALL(r, cuStreamCreate, &r->stream, CU_STREAM_NON_BLOCKING);
	RUNNER_CALL(r, cuStreamCreate, &r->side, CU_STREAM_NON_BLOCKING);
	RUNNER_CALL(r, cuEventCreate, &r->fork, CU_EVENT_DISABLE_TIMING);
	RUNNER_CALL(r, cuEventCreate, &r->join, CU_EVENT_DISABLE_TIMING);
	RUNNER_CALL(r, cuMemGetInfo_v2, &available, &total);
	kv = KV_MEMORY_SHARE * (double)total - r->o.shape->total_bytes;
	if (kv > 0 && a->kv_bytes_per_token > 0)
		r->kv_tokens = (uint64_t)(kv / a->kv_bytes_per_token);
	allocate(r, &m->input,
		 sizeof(struct device_input) +
			 rows * sizeof(struct device_token));
	allocate(r, &m->padding, rows);
	for (int i = 0; i < PLACES; i++)
		allocate(r, &m->place[i],
			 places_bytes((enum place)i, (uint32_t)rows, a->top_k,
				      a->experts));
	m->topk_ids = m->place[PLACE_IDS];
	m->real_rows = m->place[PLACE_REAL];
	allocate(r, &m->cumsum, (a->experts + 2) * sizeof(int32_t));
	allocate(r, &m->tokens, rows * sizeof(int32_t));
}

static int start_device(struct runner *r, char *why, size_t why_bytes)
{
	struct device_config c = {
		.shape = r->o.shape,
		.routing = r->o.routing,
		.input = r->mem.input,
		.rows_max = r->rows_max,
		.draft_layers = r->draft_layers,
		.pads_late = r->seq.pads_late,
	};
	int err = device_init(&c);

	return err ? err : runner_load_kernels(r, why, why_bytes);
}

static int warm_up(struct runner *r)
{
	unsigned n = WARM_UP_ROWS;
	struct seq q[WARM_UP_ROWS] = { 0 };
	struct sched_item items[WARM_UP_ROWS];

	if (n > r->rows_max)
		n = r->rows_max;
	for (unsigned i = 0; i < n; i++) {
		q[i].id = UINT64_MAX - i;
		items[i] = (struct sched_item){ .seq = &q[i], .count = 1 };
	}
	return runner_step(r, &(struct sched_step){
				      .items = items,
				      .items_n = n,
				      .tokens = n,
			      });
}

static void capture_piece(struct runner *r, struct runner_graph *g,
			  unsigned from, unsigned to)
{
	CUgraph graph = NULL;

	RUNNER_CALL(r, cuStreamBeginCapture_v2, r->stream,
		    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	runner_launch(r, g->size, from, to);
	RUNNER_CALL(r, cuStreamEndCapture, r->stream, &graph);
	/* AutoFreeOnLaunch | UseNodePriority, as PyTorch does */
	RUNNER_CALL(r, cuGraphInstantiateWithFlags, &g->exec[g->pieces], graph,
		    1 | 8);
	RUNNER_CALL(r, cuGraphDestroy, graph);
	g->pieces++;
}

static void capture(struct runner *r, unsigned size)
{
	struct runner_graph *g = &r->graph[r->graphs];
	unsigned n = runner_list(r, size);

	g->size = size;
	g->exec = calloc(RUNNER_PIECES_MAX, sizeof(*g->exec));
	if (!g->exec) {
		runner_check(r, CUDA_ERROR_OUT_OF_MEMORY, "capture");
		return;
	}
	r->graphs++;
	for (unsigned i = 0, to; i < n; i = to) {
		to = piece_end(r, i, n);
		if (r->item[i].piece >= 0 && g->pieces < RUNNER_PIECES_MAX)
			capture_piece(r, g, i, to);
	}
}

static void capture_all(struct runner *r)
{
	unsigned n = 0;

	while (sched_graph_size(n))
		n++;
	while (n-- > 0 && r->failed == CUDA_SUCCESS) {
		unsigned size = sched_graph_size(n);
		/* The smallest size that holds max_seqs is the largest used. */
		bool needed =
			!n || sched_graph_size(n - 1) < r->o.limits.max_seqs;

		if (needed && size <= r->rows_max)
			capture(r, size);
	}
}

static int read_sequence(struct runner *r, char *why, size_t why_bytes)
{
	static const char *const defaults[] = {
		[KERNELS_VLLM] = "vllm-triton",
		[KERNELS_SGLANG] = "sglang-triton",
	};
	const char *name = r->o.backend && *r->o.backend
				   ? r->o.backend
				   : defaults[r->o.flavour];
	const struct arch *a = &r->o.shape->arch;
	char path[OPTIONS_PATH_BYTES];
	int err;

	if (options_find(name, "sequences", ".seq", path, sizeof(path))) {
		snprintf(why, why_bytes, "%s: no such backend or file", name);
		return -ENOENT;
	}
	err = sequence_read(path, &r->seq, why, why_bytes);
	if (err || !r->seq.draft)
		return err;
	r->draft_layers = a->draft_moe_layers ? a->draft_moe_layers : 1;
	if (a->moe_layers + r->draft_layers <= LAYERS_MAX)
		return 0;
	snprintf(why, why_bytes, "%s: too many layers", name);
	return -EINVAL;
}

static int start(struct runner *r, char *why, size_t why_bytes)
{
	int err = simgpu_select(r->o.gpu);

	if (err) {
		snprintf(why, why_bytes,
			 "%s: no such GPU; use H100, H200, "
			 "B200 or A100",
			 r->o.gpu);
		return err;
	}
	err = read_sequence(r, why, why_bytes);
	if (err)
		return err;
	preload_cupti();
	open_context(r);
	err = start_device(r, why, why_bytes);
	if (!err && !r->failed)
		err = warm_up(r);
	if (!err && r->o.graphs)
		capture_all(r);
	if (r->failed != CUDA_SUCCESS) {
		snprintf(why, why_bytes, "%s", r->error);
		err = -EIO;
	}
	return err;
}

int runner_open(struct runner **out, const struct runner_options *o, char *why,
		size_t why_bytes)
{
	struct runner *r = calloc(1, sizeof(*r));
	int err = -ENOMEM;

	if (!r)
		return err;
	r->o = *o;
	r->rows_max = o->limits.max_tokens;
	r->input = malloc(sizeof(struct device_input) +
			  r->rows_max * sizeof(struct device_token));
	r->padding = malloc(r->rows_max);
	r->sampled = malloc(r->rows_max * sizeof(*r->sampled));
	if (!r->input || !r->padding || !r->sampled) {
		snprintf(why, why_bytes, "out of memory");
		goto fail;
	}
	err = start(r, why, why_bytes);
	if (!err) {
		*out = r;
		return 0;
	}
fail:
	runner_close(r);
	return err;
}

void runner_close(struct runner *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->graphs; i++) {
		for (unsigned k = 0; k < r->graph[i].pieces; k++)
			cuGraphExecDestroy(r->graph[i].exec[k]);
		free(r->graph[i].exec);
	}
	if (r->fork)
		cuEventDestroy_v2(r->fork);
	if (r->join)
		cuEventDestroy_v2(r->join);
	if (r->side)
		cuStreamDestroy_v2(r->side);
	if (r->module)
		cuModuleUnload(r->module);
	if (r->stream)
		cuStreamDestroy_v2(r->stream);
	if (r->context)
		cuDevicePrimaryCtxRelease_v2(0);
	device_fini();
	free(r->input);
	free(r->padding);
	free(r->sampled);
	free(r);
}
