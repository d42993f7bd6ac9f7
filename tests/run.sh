#!/bin/sh
# run.sh FILE - how prove runs one test: everything prints TAP.
# Unit tests are cmocka programs, the others say by their first line what runs
# them.  A test that hangs is ended, and says so.
export CMOCKA_MESSAGE_OUTPUT=TAP
export O="${O:-build}"
timeout -k 5 "${TEST_TIMEOUT:-180}" "$1"
rc=$?
[ $rc != 124 ] || echo "Bail out! $1 ran into its time limit"
exit $rc
