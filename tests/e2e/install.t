#!/bin/sh
# make install and make uninstall: an installation is whole, finds its own parts
# wherever it lies, and leaves nothing behind.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=${O:-build}
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
n=0

ok() { # STATUS NAME
	n=$((n + 1))
	if [ "$1" = 0 ]; then echo "ok $n - $2"; else
		echo "not ok $n - $2"
		tail -n 40 "$T/out" "$T/err" 2>/dev/null | sed 's/^/# /'
	fi
}

listing() { (cd "$T/$1" && find . | sort); }

# what is there already is none of our business
mkdir -p "$T/prefix/bin" "$T/prefix/lib"
echo other >"$T/prefix/bin/other"
listing prefix >"$T/before"

make -s O="$O" PREFIX="$T/prefix" install >"$T/out" 2>"$T/err"
ok $? "make install PREFIX=DIR"

"$T/prefix/bin/moetop" run -- sh -c 'echo "$CUDA_INJECTION64_PATH"' \
	>"$T/out" 2>"$T/err"
[ "$(cat "$T/out")" = "$T/prefix/lib/moetop/libmoetop-agent.so" ]
ok $? "moetop run takes the installed agent"

(cd / && "$T/prefix/bin/moetop" demo --once --json) >"$T/out" 2>"$T/err"
status=$?
[ $status = 0 ] && [ "$(wc -l <"$T/out")" = 1 ] &&
	python3 - "$T/out" 2>>"$T/err" <<-'END'
		import json, sys
		s = json.load(open(sys.argv[1]))
		assert s["metrics"]["rows"]["source"] == "measured"
		assert s["target"]["experts"] == 128
		assert all(t["state"] == "ok"
		           for t in s["health"]["tiers"].values())
	END
ok $? "moetop demo runs from there, on the installed simulated server"

mv "$T/prefix" "$T/moved"
"$T/moved/bin/moetop" run -- sh -c 'echo "$CUDA_INJECTION64_PATH"' \
	>"$T/out" 2>"$T/err"
[ "$(cat "$T/out")" = "$T/moved/lib/moetop/libmoetop-agent.so" ]
ok $? "an installation that was moved takes its own agent"
ln -s moved/bin/moetop "$T/link"
"$T/link" run -- sh -c 'echo "$CUDA_INJECTION64_PATH"' >"$T/out" 2>"$T/err"
[ "$(cat "$T/out")" = "$T/moved/lib/moetop/libmoetop-agent.so" ]
ok $? "so does one that is called through a link"

rm "$T/moved/lib/moetop/libmoetop-agent.so"
"$T/moved/bin/moetop" demo --once --json >"$T/out" 2>"$T/err"
[ $? = 2 ] && [ ! -s "$T/out" ] && [ "$(wc -l <"$T/err")" = 1 ] &&
	grep -q "^moetop: libmoetop-agent.so: agent not found; " "$T/err"
ok $? "one without its agent says so"

make -s O="$O" PREFIX="$T/moved" uninstall >"$T/out" 2>"$T/err" &&
	listing moved >"$T/after" && diff "$T/before" "$T/after" >"$T/out"
ok $? "make uninstall leaves what was there before, and no more"

make -s O="$O" PREFIX=/usr DESTDIR="$T/stage" install >"$T/out" 2>"$T/err" &&
	[ -x "$T/stage/usr/bin/moetop" ] &&
	[ -f "$T/stage/usr/lib/moetop/libmoetop-agent.so" ]
ok $? "make install DESTDIR=DIR, for packages"
echo "1..$n"
