#!/bin/sh
# fuzz.t - every fuzzer runs for a moment and finds nothing
# A longer run: build/fuzz/tests/fuzz/fuzz_NAME -max_total_time=600
# time limit: 1200 s
cd "$(dirname "$0")/.." || exit 1
O=${O:-build}
T=$(mktemp -d) || exit 1
trap 'rm -rf "$T"' EXIT
n=0 bad=0
for f in "$O"/fuzz/tests/fuzz/fuzz_*; do
	case $f in *.[od]) continue ;; esac
	n=$((n + 1)) name=${f##*/}
	mkdir "$T/$name"
	case $name in # what to start from, where an empty input says too little
	fuzz_model_config) seeds=tests/data/configs ;;
	fuzz_scrape) seeds=tests/data/metrics ;;
	fuzz_engine_info) seeds=tests/data/logs ;;
	fuzz_web_config) seeds=tests/data/web ;;
	*) seeds= ;;
	esac
	if ASAN_OPTIONS=detect_leaks=1 "$f" -max_total_time=3 -timeout=60 \
		-rss_limit_mb=2048 -artifact_prefix="$T/" "$T/$name" $seeds \
		>"$T/log" 2>&1; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"; bad=1
		tail -30 "$T/log" | sed 's/^/# /'
	fi
done
[ $n -gt 0 ] || { echo "not ok 1 - there are fuzzers"; n=1 bad=1; }
echo "1..$n"
exit $bad
