#include "exporter/exporter.h"
#include "exporter/recording.h"
#include "tests/unit/exporter/snapshots.h"
#include "wire/snapshot.pb-c.h"

#include <errno.h>
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

static void fill(const void *data, size_t bytes)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, bytes, f), bytes);
	fclose(f);
}

static void record(unsigned n)
{
	struct recorder *r;

	assert_int_equal(recorder_open(&r, path, why, sizeof(why)), 0);
	for (unsigned i = 0; i < n; i++) {
		s.sequence = i;
		assert_int_equal(recorder_write(r, &s), 0);
	}
	assert_int_equal(recorder_close(r), 0);
}

/* Both views of the two snapshots must agree to the last digit. */
static void same_views(const struct snapshot *a, const struct snapshot *b)
{
	const struct format *const formats[] = { &format_json,
						 &format_prometheus };

	for (unsigned i = 0; i < 2; i++) {
		struct text x = { 0 }, y = { 0 };

		formats[i]->write(&x, a);
		formats[i]->write(&y, b);
		assert_string_equal(x.data, y.data);
		text_free(&x);
		text_free(&y);
	}
}

static void a_snapshot_survives(void **state)
{
	struct player *p;

	(void)state;
	snapshot_full(&s);
	memset(s.totals, 0, sizeof(s.totals)); /* live only */
	s.health.target_gone = true;
	s.health.target_gone_seconds = 1700000000.5;
	strcpy(s.health.rung, "tp_btf");
	record(3);
	assert_int_equal(player_open(&p, path, why, sizeof(why)), 0);
	for (unsigned i = 0; i < 3; i++) {
		memset(&got, 0xff, sizeof(got));
		assert_int_equal(player_next(p, &got), 1);
		assert_int_equal(got.sequence, i);
	}
	assert_int_equal(player_next(p, &got), 0);
	assert_int_equal(player_next(p, &got), 0);
	player_close(p);
	same_views(&s, &got);
	assert_true(got.uptime_s == s.uptime_s);
	assert_true(got.group_share[0].v == s.group_share[0].v);
	assert_string_equal(got.verdict[0], s.verdict[0]);
	assert_string_equal(got.target.host, s.target.host);
	assert_int_equal(got.target.tp, s.target.tp);
	assert_string_equal(got.health.message, s.health.message);
	assert_string_equal(got.health.rung, s.health.rung);
	assert_true(got.health.target_gone_seconds ==
		    s.health.target_gone_seconds);
	assert_string_equal(got.target.config_origin, s.target.config_origin);
}

static void the_largest_snapshot_survives(void **state)
{
	struct player *p;
	struct stat st;

	(void)state;
	snapshot_large(&s, SNAPSHOT_LAYERS_MAX);
	memset(s.totals, 0, sizeof(s.totals));
	s.n_findings = SNAPSHOT_FINDINGS_MAX;
	for (unsigned i = 1; i < SNAPSHOT_FINDINGS_MAX; i++)
		s.findings[i] = s.findings[0];
	s.n_what_if = SNAPSHOT_WHAT_IF_MAX;
	for (unsigned i = 2; i < SNAPSHOT_WHAT_IF_MAX; i++)
		s.what_if[i] = s.what_if[0];
	record(1);
	assert_int_equal(player_open(&p, path, why, sizeof(why)), 0);
	assert_int_equal(player_next(p, &got), 1);
	player_close(p);
	same_views(&s, &got);
	assert_int_equal(stat(path, &st), 0);
	print_message("# %ld bytes\n", (long)st.st_size);
	assert_true(st.st_size < 100000);
}

static void nothing_survives_as_nothing(void **state)
{
	struct player *p;

	(void)state;
	snapshot_empty(&s);
	record(1);
	assert_int_equal(player_open(&p, path, why, sizeof(why)), 0);
	assert_int_equal(player_next(p, &got), 1);
	player_close(p);
	assert_memory_equal(&s, &got, sizeof(s));
}

static void every_cut_is_noticed(void **state)
{
	static char whole[1 << 17];
	struct player *p;
	size_t n;
	struct stat first;
	FILE *f;

	(void)state;
	snapshot_full(&s);
	record(1);
	assert_int_equal(stat(path, &first), 0);
	record(2);
	f = fopen(path, "r");
	n = fread(whole, 1, sizeof(whole), f);
	fclose(f);
	assert_true(n > 2000 && n < sizeof(whole));
	for (size_t cut = 0; cut < n; cut += 97) {
		int err;

		if ((off_t)cut == first.st_size) /* not cut: one snapshot */
			continue;
		fill(whole, cut);
		if (cut < RECORDING_MAGIC_BYTES) {
			assert_int_equal(
				player_open(&p, path, why, sizeof(why)),
				-EBADMSG);
			continue;
		}
		assert_int_equal(player_open(&p, path, why, sizeof(why)), 0);
		do
			err = player_next(p, &got);
		while (err == 1);
		assert_int_equal(err, -EBADMSG);
		player_close(p);
	}
}

static void flipped_bytes_do_no_harm(void **state)
{
	uint8_t *data;
	size_t n;

	(void)state;
	snapshot_full(&s);
	assert_int_equal(recording_pack(NULL, &s, &data, &n), 0);
	for (size_t i = 0; i < n; i += 3) {
		uint8_t was = data[i];
		struct text t = { 0 };
		int err;

		data[i] ^= (uint8_t)(1u << i % 8);
		err = recording_unpack(NULL, data, n, &got);
		data[i] = was;
		assert_true(err == 0 || err == -EBADMSG);
		if (!err) {
			format_json.write(&t, &got);
			assert_int_equal(t.error, 0);
		}
		text_free(&t);
	}
	free(data);
}

/* Unpack a message with one thing wrong. */
static int unpack_with(void (*spoil)(Moetop__Snapshot *m))
{
	Moetop__Snapshot m = MOETOP__SNAPSHOT__INIT;
	uint8_t buf[1 << 14];

	spoil(&m);
	assert_true(moetop__snapshot__get_packed_size(&m) < sizeof(buf));
	return recording_unpack(NULL, buf, moetop__snapshot__pack(&m, buf),
				&got);
}

static Moetop__Metric metric = MOETOP__METRIC__INIT;
static Moetop__Metric *metrics[] = { &metric };

static void bad_time(Moetop__Snapshot *m)
{
	m->time = NAN;
}

static void bad_state(Moetop__Snapshot *m)
{
	metric.id = (char *)(uintptr_t)metric_info[0].key;
	metric.state = (Moetop__State)9;
	m->metrics = metrics;
	m->n_metrics = 1;
}

static void unknown_metric(Moetop__Snapshot *m)
{
	bad_state(m);
	metric.id = (char *)(uintptr_t) "of_the_future";
}

static void infinite_metric(Moetop__Snapshot *m)
{
	bad_state(m);
	metric.state = MOETOP__STATE__STATE_OK;
	metric.v = INFINITY;
}

static void unknown_regime(Moetop__Snapshot *m)
{
	m->regime = (char *)(uintptr_t) "of_the_future";
}

static void too_many_layers(Moetop__Snapshot *m)
{
	static Moetop__Layer layer = MOETOP__LAYER__INIT;
	static Moetop__Layer *layers[SNAPSHOT_LAYERS_MAX + 1];

	for (unsigned i = 0; i <= SNAPSHOT_LAYERS_MAX; i++)
		layers[i] = &layer;
	m->layers = layers;
	m->n_layers = SNAPSHOT_LAYERS_MAX + 1;
}

static void long_model(Moetop__Snapshot *m)
{
	static Moetop__Target target = MOETOP__TARGET__INIT;
	static char name[1000];

	memset(name, 'x', sizeof(name) - 1);
	target.model = name;
	m->target = &target;
}

static void big_port(Moetop__Snapshot *m)
{
	long_model(m);
	m->target->port = 65536;
}

static void hostile_messages(void **state)
{
	(void)state;
	got.sequence = 42;
	assert_int_equal(unpack_with(bad_time), -EBADMSG);
	assert_int_equal(unpack_with(bad_state), -EBADMSG);
	assert_int_equal(unpack_with(too_many_layers), -EBADMSG);
	assert_int_equal(unpack_with(big_port), -EBADMSG);
	assert_int_equal(got.sequence, 42);
	assert_int_equal(unpack_with(infinite_metric), 0);
	assert_int_equal(got.metrics[0].state, VALUE_NO_DATA);
	assert_int_equal(unpack_with(unknown_metric), 0);
	assert_int_equal(unpack_with(unknown_regime), 0);
	assert_int_equal(got.regime, REGIME_UNKNOWN);
}

static void long_names_are_cut(void **state)
{
	Moetop__Snapshot m = MOETOP__SNAPSHOT__INIT;
	uint8_t buf[4096];

	(void)state;
	long_model(&m);
	m.target->port = 1;
	assert_int_equal(recording_unpack(NULL, buf,
					  moetop__snapshot__pack(&m, buf),
					  &got),
			 0);
	assert_int_equal(strlen(got.target.model),
			 sizeof(got.target.model) - 1);
}

/* Two bytes of file make a message of a hundred in memory. */
static void a_small_file_cannot_ask_for_much_memory(void **state)
{
	uint8_t *data = malloc(RECORDING_MESSAGE_MAX);

	(void)state;
	for (size_t i = 0; i < RECORDING_MESSAGE_MAX; i += 2) {
		data[i] = 11 << 3 | 2; /* layers, length-delimited */
		data[i + 1] = 0;
	}
	assert_int_equal(
		recording_unpack(NULL, data, RECORDING_MESSAGE_MAX, &got),
		-EBADMSG);
	free(data);
}

static void lengths_are_bounded(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
	} cases[] = {
		{ RECORDING_MAGIC "\xff\xff\xff\xff\xff", 13 },
		{ RECORDING_MAGIC "\xff\xff\xff\xff\x0f", 13 },
		{ RECORDING_MAGIC "\x81\x80\x40", 11 }, /* 1 MiB + 1 */
		{ RECORDING_MAGIC "\x80", 9 },
		{ RECORDING_MAGIC "\x05", 9 },
	};
	struct player *p;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fill(cases[i].bytes, cases[i].n);
		assert_int_equal(player_open(&p, path, why, sizeof(why)), 0);
		assert_int_equal(player_next(p, &got), -EBADMSG);
		player_close(p);
	}
}

static void other_files_are_left_alone(void **state)
{
	struct recorder *r;
	struct player *p;
	struct stat st;

	(void)state;
	fill("my thesis", 9);
	assert_int_equal(recorder_open(&r, path, why, sizeof(why)), -EEXIST);
	assert_non_null(strstr(why, "choose another name"));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 9);
	assert_int_equal(player_open(&p, path, why, sizeof(why)), -EBADMSG);
	assert_non_null(strstr(why, "not a recording"));
	assert_int_equal(player_open(&p, "/no/such/file", why, sizeof(why)),
			 -ENOENT);
	assert_int_equal(recorder_open(&r, "/no/such/file", why, sizeof(why)),
			 -ENOENT);
	fill("", 0);
	snapshot_full(&s);
	record(1); /* empty: may be used */
	record(2); /* a recording: may be replaced */
	assert_int_equal(recorder_close(NULL), 0);
	player_close(NULL);
}

static void a_full_disk_is_reported(void **state)
{
	struct recorder *r;

	(void)state;
	assert_int_equal(recorder_open(&r, "/dev/full", why, sizeof(why)),
			 -ENOSPC);
	assert_non_null(strstr(why, "/dev/full"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_survives),
		cmocka_unit_test(the_largest_snapshot_survives),
		cmocka_unit_test(nothing_survives_as_nothing),
		cmocka_unit_test(every_cut_is_noticed),
		cmocka_unit_test(flipped_bytes_do_no_harm),
		cmocka_unit_test(hostile_messages),
		cmocka_unit_test(long_names_are_cut),
		cmocka_unit_test(a_small_file_cannot_ask_for_much_memory),
		cmocka_unit_test(lengths_are_bounded),
		cmocka_unit_test(other_files_are_left_alone),
		cmocka_unit_test(a_full_disk_is_reported),
	};

	return cmocka_run_group_tests(tests, make_path, remove_path);
}
