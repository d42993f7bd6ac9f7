#!/bin/sh
# The screen on a live server: it fills, it survives a resize and the server's
# death, it hands the terminal back.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=${O:-build}
case $O in /*) ;; *) O=$PWD/$O ;; esac
. tests/term/term.sh
n=0
trap 'kill $SIM 2>/dev/null; tm kill-server 2>/dev/null; rm -rf "$T"' EXIT

ok() { # STATUS NAME
	n=$((n + 1))
	if [ "$1" = 0 ]; then echo "ok $n - $2"; else
		echo "not ok $n - $2"
		term_screen 2>/dev/null | sed 's/^/# /'
	fi
}

shown() { # TEXT SECONDS - it appears in time
	i=0
	while [ $i -lt $(($2 * 20)) ]; do
		term_screen | grep -qF -- "$1" && return 0
		sleep 0.05
		i=$((i + 1))
	done
	return 1
}

now_ms() { date +%s%3N; }

"$O/moetop" run -- "$O/sim/moetop-sim" --model sim/models/qwen3-30b.json \
	--gpu H200 --port 0 --users 16 >"$T/sim" 2>&1 &
SIM=$!
i=0
until grep -q "listening on" "$T/sim"; do
	i=$((i + 1))
	[ $i -lt 2400 ] || { echo "Bail out! $(cat "$T/sim")"; exit 1; }
	sleep 0.05
done

# three seconds; more where the machine is busy, and again where it stood still
for _ in 1 2 3; do
	term_start 100 30 sh -c "'\"$O/moetop\" -p $SIM; echo status \$?; stty -a | grep -o .echo.; sleep 60'"
	start=$(now_ms)
	shown "in flight 16" 60
	seen=$?
	took=$(($(now_ms) - start))
	limit=$(cd tests/e2e && python3 -c \
		'import tap; print(int(3000 * tap.slowness()))')
	[ "$took" -ge "$limit" ] || break
done
ok $seen "the requests are shown"
[ "$took" -lt "$limit" ]
ok $? "the first useful screen came in time ($took ms)"
shown "IN THE VALLEY" 60
ok $? "the verdict is shown"
tm resize-window -x 80 -y 24
shown "IN THE VALLEY" 60
ok $? "and again after a resize"

kill -9 $SIM
shown "gone" 30 || shown "has ended" 30
ok $? "the server is killed: the screen says so"
term_screen | grep -qE "in flight 1?[0-9]"
ok $? "and keeps the last state"
term_key q
shown "status 0" 60
ok $? "q ends it with status 0"
shown " echo" 60
ok $? "and the terminal echoes again"
echo "1..$n"
