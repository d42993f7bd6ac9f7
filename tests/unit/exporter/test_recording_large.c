/* The parts of a snapshot that are arrays: written when they change, played as
 * they were, and harmless whatever the file says. */
#include "exporter/exporter.h"
#include "exporter/recording.h"
#include "tests/unit/exporter/snapshots.h"
#include "wire/kernel_class.h"
#include "wire/snapshot.pb-c.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct snapshot s, got;
static char path[64], why[256];

static int make_path(void **state)
{
	int fd;

	(void)state;
	strcpy(path, "/tmp/moetop-test-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
	(void)state;
	return unlink(path);
}

static void fill_experts(unsigned layers, unsigned experts, uint32_t most)
{
	s.experts.n_layers = layers;
	s.experts.n_experts = experts;
	for (unsigned i = 0; i < layers * experts; i++)
		s.experts.rows[i] = most - i % 7;
}

static void fill_classes(struct snapshot_layer *l, unsigned n)
{
	l->n_classes = n;
	for (unsigned i = 0; i < n; i++)
		l->classes[i] = (struct snapshot_layer_class){
			.id = i % CLASSES,
			.calls_per_step = 2,
			.seconds_per_step = 1e-5f * (float)(i + 1),
			.sum_seconds_per_step = 1.1e-5f * (float)(i + 1),
		};
}

static void fill_base(struct whatif *w)
{
	w->valid = w->known = true;
	w->arch.experts = 128;
	w->arch.top_k = 8;
	w->arch.moe_layers = 48;
	w->arch.expert_bytes = w->arch.expert_params = 9437184;
	w->arch.dense_bytes = w->arch.dense_params = 1.5e9;
	w->gpus = w->tp = 2;
	w->ep = 1;
	w->gpu_bw = 4.8e12;
	w->calibration.bw = 8e12;
	w->calibration.bw_low = 7.5e12;
	w->calibration.bw_high = 8.5e12;
	w->batch = 16;
	w->step_s = 0.012;
	w->source = SOURCE_MODELLED;
	w->traffic.experts = 128;
	w->traffic.top_k = 8;
	w->traffic.basis = TRAFFIC_POPULARITY;
	w->traffic.skew = 0.8;
	w->traffic.tokens = 500;
	w->traffic.batch = 16;
	w->traffic.active = w->traffic.unanchored = 64;
	w->traffic.unanchored_more = w->traffic.unanchored_less = 64;
	w->traffic.n = 2;
	w->traffic.bins[0].q = 0.02;
	w->traffic.bins[0].experts = 64;
	w->traffic.bins[1].q = 0.105;
	w->traffic.bins[1].experts = 64;
}

static void fill_all(void)
{
	snapshot_full(&s);
	fill_experts(48, 128, 1000);
	for (unsigned i = 0; i < s.n_layers; i++)
		fill_classes(&s.layers[i], 9);
	fill_classes(&s.draft[0], 3);
	fill_base(&s.what_if_base);
	s.hists[HISTOGRAM_TTFT].n_buckets = 2;
	s.hists[HISTOGRAM_TTFT].buckets[0] =
		(struct snapshot_bucket){ 0.1, 900 };
	s.hists[HISTOGRAM_TTFT].buckets[1] =
		(struct snapshot_bucket){ 0.2, 100 };
	s.n_checks = 1;
	strcpy(s.checks[0].name, "running");
	s.checks[0].state = CHECK_UNKNOWN;
	s.checks[0].ours = 16;
	s.checks[0].theirs = NAN;
	s.checks[0].source = SOURCE_INFERRED;
	strcpy(s.target.container, "docker 4f1c");
	strcpy(s.target.server, "vllm:8000");
	strcpy(s.target.pod, "vllm-0");
	strcpy(s.target.pod_namespace, "inference");
	s.target.n_options = 1;
	strcpy(s.target.options[0].name, "tp");
	strcpy(s.target.options[0].value, "2");
	s.requests.known = true;
	s.requests.oldest_seconds = NAN;
	s.requests.counts[1][REQUESTS_STARTED] = 77;
	s.requests.counts[3][REQUESTS_EVENTS] = 78;
}

static void write_file(unsigned n)
{
	struct recorder *r;

	assert_int_equal(recorder_open(&r, path, why, sizeof(why)), 0);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(recorder_write(r, &s), 0);
	assert_int_equal(recorder_close(r), 0);
}

static off_t file_bytes(void)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void check_got(void)
{
	assert_memory_equal(&got.experts, &s.experts, sizeof(s.experts));
	for (unsigned i = 0; i < s.n_layers; i++) {
		assert_int_equal(got.layers[i].n_classes, 9);
		assert_memory_equal(got.layers[i].classes, s.layers[i].classes,
				    sizeof(s.layers[i].classes));
	}
	assert_memory_equal(got.draft[0].classes, s.draft[0].classes,
			    sizeof(s.draft[0].classes));
	assert_memory_equal(&got.what_if_base, &s.what_if_base,
			    sizeof(s.what_if_base));
	assert_memory_equal(&got.hists[HISTOGRAM_TTFT],
			    &s.hists[HISTOGRAM_TTFT], sizeof(s.hists[0]));
	assert_memory_equal(got.requests.counts, s.requests.counts,
			    sizeof(s.requests.counts));
	assert_true(got.requests.known && isnan(got.requests.oldest_seconds));
	assert_string_equal(got.target.container, s.target.container);
	assert_string_equal(got.target.server, s.target.server);
	assert_string_equal(got.target.pod, s.target.pod);
	assert_string_equal(got.target.pod_namespace, s.target.pod_namespace);
	assert_int_equal(got.target.n_options, 1);
	assert_string_equal(got.target.options[0].value, "2");
	assert_int_equal(got.n_checks, 1);
	assert_true(got.checks[0].ours == 16 && isnan(got.checks[0].theirs));
	assert_int_equal(got.checks[0].source, SOURCE_INFERRED);
}

static void every_part_survives(void **state)
{
	struct player *p;

	(void)state;
	fill_all();
	write_file(3);
	assert_int_equal(player_open(&p, path, why, sizeof(why)), 0);
	for (unsigned i = 0; i < 3; i++) {
		memset(&got, 0xff, sizeof(got));
		assert_int_equal(player_next(p, &got), 1);
		check_got();
	}
	player_close(p);
}

/* The same answer from the recording as from the server. */
static void what_ifs_can_be_asked_of_a_recording(void **state)
{
	const struct whatif_change c = { .batch = 50 };
	struct whatif_point live, played;
	struct player *p;

	(void)state;
	fill_all();
	write_file(1);
	assert_int_equal(player_open(&p, path, why, sizeof(why)), 0);
	assert_int_equal(player_next(p, &got), 1);
	player_close(p);
	assert_true(whatif_at(&s.what_if_base, &c, &live));
	assert_true(whatif_at(&got.what_if_base, &c, &played));
	assert_true(live.shares.gain == played.shares.gain);
	assert_true(live.step_s_high == played.step_s_high);
}

static void what_does_not_change_is_written_once(void **state)
{
	off_t one, two;

	(void)state;
	fill_all();
	write_file(1);
	one = file_bytes();
	write_file(2);
	two = file_bytes();
	print_message("# %ld bytes, then %ld\n", (long)one, (long)(two - one));
	assert_true(two - one < one / 2);
}

/* Rows that come, change, and go again. */
static void changes_are_played(void **state)
{
	static const uint32_t most[] = { 0, 50, 50, 60, 0, 70 };
	struct recorder *r;
	struct player *p;

	(void)state;
	fill_all();
	assert_int_equal(recorder_open(&r, path, why, sizeof(why)), 0);
	for (unsigned i = 0; i < 6; i++) {
		s.experts.n_layers = 0;
		s.layers[1].n_classes = most[i] / 10;
		if (most[i])
			fill_experts(48, 128, most[i]);
		assert_int_equal(recorder_write(r, &s), 0);
	}
	assert_int_equal(recorder_close(r), 0);
	assert_int_equal(player_open(&p, path, why, sizeof(why)), 0);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(player_next(p, &got), 1);
		assert_int_equal(got.experts.n_layers, most[i] ? 48 : 0);
		assert_int_equal(got.layers[1].n_classes, most[i] / 10);
		if (most[i])
			assert_int_equal(got.experts.rows[0], most[i]);
	}
	player_close(p);
}

static void the_most_there_can_be_fits(void **state)
{
	struct player *p;

	(void)state;
	fill_all();
	snapshot_large(&s, SNAPSHOT_LAYERS_MAX);
	for (unsigned i = 0; i < SNAPSHOT_LAYERS_MAX; i++)
		fill_classes(&s.layers[i], SNAPSHOT_LAYER_CLASSES_MAX);
	fill_experts(128, 512, UINT32_MAX);
	for (unsigned h = 0; h < HISTOGRAMS; h++) {
		s.hists[h].n_buckets = SNAPSHOT_BUCKETS_MAX;
		for (unsigned i = 0; i < SNAPSHOT_BUCKETS_MAX; i++)
			s.hists[h].buckets[i] =
				(struct snapshot_bucket){ .upper = i + 1,
							  .count = UINT64_MAX };
	}
	write_file(1);
	print_message("# %ld bytes\n", (long)file_bytes());
	assert_true(file_bytes() < RECORDING_MESSAGE_MAX);
	assert_int_equal(player_open(&p, path, why, sizeof(why)), 0);
	assert_int_equal(player_next(p, &got), 1);
	player_close(p);
	assert_memory_equal(&got.experts, &s.experts, sizeof(s.experts));
	assert_memory_equal(got.hists, s.hists, sizeof(s.hists));
}

/* A base that is not a number would make a file that nobody can play. */
static void a_base_that_is_no_number_is_left_out(void **state)
{
	uint8_t *data;
	size_t n;

	(void)state;
	fill_all();
	s.what_if_base.traffic.bins[1].q = NAN;
	assert_int_equal(recording_pack(NULL, &s, &data, &n), 0);
	assert_int_equal(recording_unpack(NULL, data, n, &got), 0);
	free(data);
	assert_false(got.what_if_base.valid || got.what_if_base.known);
	assert_int_equal(got.experts.n_layers, 48);
}

/* ---- hostile -------------------------------------------------------------- */

static Moetop__Layer layer = MOETOP__LAYER__INIT;
static Moetop__Layer *layers[] = { &layer };
static Moetop__Experts experts = MOETOP__EXPERTS__INIT;
static Moetop__Histogram hist = MOETOP__HISTOGRAM__INIT;
static Moetop__Histogram *hists[] = { &hist };
static Moetop__Requests requests = MOETOP__REQUESTS__INIT;
static Moetop__WhatIfBase base = MOETOP__WHAT_IF_BASE__INIT;
static uint32_t ids[SNAPSHOT_LAYER_CLASSES_MAX + 1];
static float zeros[SNAPSHOT_LAYER_CLASSES_MAX + 1];
static uint64_t many[SNAPSHOT_ENDPOINTS * REQUEST_COUNTS + 1];
static double uppers[2] = { 2, 1 };

static void set_classes(Moetop__Snapshot *m, size_t n)
{
	layer.n_class_id = layer.n_class_calls_per_step = n;
	layer.n_class_seconds_per_step = n;
	layer.n_class_sum_seconds_per_step = n;
	layer.class_id = ids;
	layer.class_calls_per_step = layer.class_seconds_per_step = zeros;
	layer.class_sum_seconds_per_step = zeros;
	m->layers = layers;
	m->n_layers = 1;
}

static void too_many_classes(Moetop__Snapshot *m)
{
	set_classes(m, SNAPSHOT_LAYER_CLASSES_MAX + 1);
}

static void uneven_classes(Moetop__Snapshot *m)
{
	set_classes(m, 3);
	layer.n_class_seconds_per_step = 2;
}

static void wide_experts(Moetop__Snapshot *m)
{
	experts.layers = experts.experts = UINT32_MAX;
	experts.n_rows = 0;
	m->experts = &experts;
}

static void short_experts(Moetop__Snapshot *m)
{
	experts.layers = experts.experts = 3;
	experts.rows = ids;
	experts.n_rows = 8;
	m->experts = &experts;
}

static void falling_buckets(Moetop__Snapshot *m)
{
	static char id[] = "ttft_seconds";

	hist.id = id;
	hist.bucket_upper = uppers;
	hist.bucket_count = many;
	hist.n_bucket_upper = hist.n_bucket_count = 2;
	m->histograms = hists;
	m->n_histograms = 1;
}

static void too_many_counts(Moetop__Snapshot *m)
{
	requests.counts = many;
	requests.n_counts = SNAPSHOT_ENDPOINTS * REQUEST_COUNTS + 1;
	m->requests = &requests;
}

static void unknown_basis(Moetop__Snapshot *m)
{
	base.basis = TRAFFIC_POPULARITY + 1;
	m->what_if_base = &base;
}

static void unknown_class(Moetop__Snapshot *m)
{
	set_classes(m, 1);
	ids[0] = UINT32_MAX;
}

static int unpack_with(void (*spoil)(Moetop__Snapshot *m))
{
	Moetop__Snapshot m = MOETOP__SNAPSHOT__INIT;
	uint8_t buf[1 << 12];

	spoil(&m);
	assert_true(moetop__snapshot__get_packed_size(&m) < sizeof(buf));
	return recording_unpack(NULL, buf, moetop__snapshot__pack(&m, buf),
				&got);
}

static void hostile_parts(void **state)
{
	void (*const spoils[])(Moetop__Snapshot *) = {
		too_many_classes, uneven_classes,  wide_experts,  short_experts,
		falling_buckets,  too_many_counts, unknown_basis,
	};

	(void)state;
	got.sequence = 42;
	for (unsigned i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++)
		assert_int_equal(unpack_with(spoils[i]), -EBADMSG);
	assert_int_equal(got.sequence, 42);
	assert_int_equal(unpack_with(unknown_class), 0);
	assert_int_equal(got.layers[0].classes[0].id, CLASS_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_part_survives),
		cmocka_unit_test(what_ifs_can_be_asked_of_a_recording),
		cmocka_unit_test(what_does_not_change_is_written_once),
		cmocka_unit_test(changes_are_played),
		cmocka_unit_test(the_most_there_can_be_fits),
		cmocka_unit_test(a_base_that_is_no_number_is_left_out),
		cmocka_unit_test(hostile_parts),
	};

	return cmocka_run_group_tests(tests, make_path, remove_path);
}
