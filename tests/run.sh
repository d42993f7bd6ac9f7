#!/bin/bash
# run.sh FILE - how prove runs one test: everything prints TAP.
# Unit tests are cmocka programs, the others say by their first line what runs
# them.  A test that hangs is ended, and says so; one that needs more than five
# minutes says "# time limit: N s" near its beginning.  Under CI nothing may be
# left out: a skip fails.
export CMOCKA_MESSAGE_OUTPUT=TAP
export O="${O:-build}"
PATH=$(realpath -m "$O")/tools:$PATH # promtool, where it is not installed
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
limit=$(head -c 2000 "$1" | sed -n 's/^# time limit: \([0-9]*\) s$/\1/p')
timeout -k 5 "${TEST_TIMEOUT:-${limit:-300}}" "$1" | tee "$log"
rc=${PIPESTATUS[0]}
[ "$rc" != 124 ] || echo "# $1: ended at its time limit" >&2
if [ -n "$CI" ] && grep -i '# *skip' "$log" >&2; then
	echo "# $1: a test was left out, see above; under CI that is a failure"
	rc=1
fi
# prove keeps what a test prints to itself; a failure is shown.
[ "$rc" = 0 ] || sed -n '/^not ok/,/^ok/{/^ok/!p}' "$log" | cut -c1-2000 >&2
exit "$rc"
