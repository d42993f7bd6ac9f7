#!/bin/sh
# Wrong use of the command line: the exit status, and one line that says what,
# why and what to do.
set -u
M=${O:-build}/moetop
T=$(mktemp -d)
P=
trap 'kill $P 2>/dev/null; rm -rf "$T"' EXIT
n=0

ok() { # CONDITION-STATUS NAME
	n=$((n + 1))
	if [ "$1" = 0 ]; then echo "ok $n - $2"; else
		echo "not ok $n - $2"
		sed 's/^/# /' "$T/out" "$T/err"
	fi
}

# fails STATUS TEXT ARGS... - ends with STATUS, prints nothing on standard
# output, and one line on standard error that holds TEXT
fails() {
	status=$1 text=$2
	shift 2
	timeout 120 "$M" "$@" >"$T/out" 2>"$T/err" </dev/null
	got=$?
	[ "$got" = "$status" ] && [ ! -s "$T/out" ] &&
		[ "$(wc -l <"$T/err")" = 1 ] &&
		grep -q '^moetop: .*: .*; ' "$T/err" &&
		grep -qF -- "$text" "$T/err"
	ok $? "moetop $*: status $status (got $got), one line"
}

says() { # TEXT ARGS... - status 0 and TEXT on standard output
	text=$1
	shift
	timeout 120 "$M" "$@" >"$T/out" 2>"$T/err" </dev/null &&
		grep -qF -- "$text" "$T/out"
	ok $? "moetop $*: prints '$text'"
}

fails 2 "no such command" frobnicate
fails 2 "no such option" -p 1 --frobnicate
fails 2 "out of range" -p 1 --interval 0
fails 2 "not a whole number" -p self
fails 2 "report: not built into this version" report x
fails 2 "add --listen" -p 1 --headless
fails 2 "no command" run
fails 2 "agent not found" run --agent "$T/none.so" -- true
fails 2 "no recording" replay

fails 3 "pid 999999: no such process" -p 999999 --json
fails 3 "pid 999999: no such process" doctor -p 999999
fails 3 "pid 999999: no such process" record -p 999999 -o "$T/x"

sleep 600 &
P=$!
fails 1 "standard output is no terminal" -p $P
fails 1 "--sampled-steps: $T/no/file: No such file" \
	-p $P --json --sampled-steps "$T/no/file"
fails 1 "No such file" record -p $P -o "$T/no/file"
fails 1 "No such file" replay --json "$T/none"
fails 1 "--model: $T/none.json: No such file" \
	-p $P --json --model "$T/none.json"
fails 2 "" -p $P --headless --listen nonsense:port
kill $P

touch "$T/agent.so"
fails 1 "command not found" run --agent "$T/agent.so" -- "$T/none"
CUDA_INJECTION64_PATH=/x.so
export CUDA_INJECTION64_PATH
fails 2 "CUDA_INJECTION64_PATH: already set" \
	run --agent "$T/agent.so" -- true
unset CUDA_INJECTION64_PATH

says "usage: moetop run" run --help
says "--gpu-price USD" help
says "usage: moetop demo" help demo
says "moetop 0." --version

# `moetop run` becomes the command: pid, exit status and arguments are its own
timeout 120 "$M" run --agent "$T/agent.so" -- sh -c \
	'echo $$ "$CUDA_INJECTION64_PATH" "$1"; exit 7' - 'a b' >"$T/out" 2>"$T/err" &
P=$!
wait $P
[ $? = 7 ] && grep -q " $T/agent.so a b\$" "$T/out"
ok $? "moetop run hands over environment, arguments and status"

# a reader that has had enough ends --json without a word
sleep 600 &
P=$!
timeout 120 "$M" -p $P --json --interval 0.1 2>"$T/err" | head -n 1 >"$T/out"
kill $P
[ "$(wc -l <"$T/out")" = 1 ] && [ ! -s "$T/err" ]
ok $? "moetop --json | head -n 1 ends quietly"

# output that cannot be written is an error, and nothing else is written to
sleep 600 &
P=$!
full() { # ARGS...
	timeout 120 "$M" "$@" >/dev/full 2>"$T/err" </dev/null
	[ $? = 1 ] && [ "$(wc -l <"$T/err")" = 1 ] &&
		grep -q "^moetop: output: No space left on device; " "$T/err"
	ok $? "moetop $* >/dev/full: status 1 and one line"
}
: >"$T/out"
full -p $P --json --count 2
full doctor --no-bpf
full help
kill $P
sleep 600 &
P=$!
timeout 120 "$M" record -p $P -o "$T/tape" >"$T/out" 2>&- </dev/null &
R=$!
for _ in $(seq 600); do # until there is a snapshot in it
	[ "$("$M" replay "$T/tape" --json 2>/dev/null | wc -l)" = 0 ] || break
	sleep 0.1
done
kill $P
wait $R
[ $? = 3 ] && "$M" replay "$T/tape" --json >"$T/out" 2>"$T/err" &&
	grep -q '"target_gone":true' "$T/out" && [ ! -s "$T/err" ]
ok $? "what is said on a closed standard error goes into no recording"

echo "1..$n"
