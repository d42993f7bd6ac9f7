#!/bin/sh
# screen.t - keys, mouse and sizes, on a screen that shows made-up snapshots
cd "$(dirname "$0")/../.." || exit 1
. tests/term/term.sh
driver=$O/tests/term/driver

step "the overview is shown"
term_start 100 30 "$driver near"
term_wait "IN THE VALLEY, near side."
term_wait "1 overview  2 layers  4 requests  5 kernels"
done_

step "every number shows its screen"
term_key 2; term_wait "experts µs"
term_key 3; term_wait "This version has no such screen."
term_key 4; term_wait "since attach"
term_key 5; term_wait "gemm.grouped_tri"
term_key 6; term_wait "curve of gain"
term_key 1; term_wait "verdict"
done_

step "Tab and Shift-Tab go round the screens"
term_key Tab; term_wait "experts µs"
term_key Tab; term_wait "since attach"
term_key BTab; term_wait "experts µs"
term_key BTab; term_wait "verdict"
done_

step "help comes and goes by ?, h, F1 and Esc"
term_key '?'; term_wait "kernel window now"
term_key h; term_wait "verdict"
term_key F1; term_wait "kernel window now"
term_key Escape; term_wait "verdict"
done_

step "s and the arrows order and scroll a table"
term_key 2; term_wait "layer▼"
term_key s; term_wait "µs/step▼"
term_key s s s; term_wait "layer▼"
term_key End; term_wait "     93 "
term_key Home; term_gone "     93 "
term_key Down; term_gone "      0 "
term_key 1; term_wait "verdict"
done_

step "space holds the picture and lets it go"
term_key Space; term_wait "PAUSED"
term_key Space; term_gone "PAUSED"
done_

step "+, - and r reach the program"
term_key +; term_wait "interval 500 ms"
term_key -; term_wait "interval 1000 ms"
term_key r; term_wait "kernel window"
done_

step "a click on the key bar is that key"
# Button 1 pressed and released at column 25, row 30: "4 requests".
term_type "$(printf '\033[M 9>\033[M#9>')"
term_wait "since attach"
term_key 1; term_wait "verdict"
done_

step "a larger terminal shows more at once"
term_size 140 50; term_wait "slowest first"
done_

step "a tiny one says what it needs, and nothing is lost"
term_size 30 8; term_wait "moetop needs 40x12"
term_size 3 2; term_gone "needs"
term_size 40 12; term_wait "IN THE VALLEY"
term_size 100 30; term_wait "One more request is 58 % free."
term_gone "moetop needs"
done_

step "q quits"
term_key q
until_ eval '! tm has-session 2>/dev/null' || fail "still running"
done_

step "the loss of the target is said, its values stay"
term_start 80 24 "TZ=UTC $driver gone"
term_wait "target gone at 07:05:39 - the last state is kept"
term_wait "in flight"
term_wait "IN THE VALLEY"
term_end
done_

step "colours are used where there are any, and not with NO_COLOR"
term_start 80 24 "$driver near"
term_wait "verdict"
term_colors | grep -q '38;5;' || fail "no colour"
term_end
term_start 80 24 "NO_COLOR=1 $driver near"
term_wait "verdict"
! term_colors | grep -qE '38;5;|\[3[0-7]m|;3[0-7]m' || fail "a colour"
term_colors | grep -q '\[1m' || fail "nothing is bold"
term_end
done_

step "a terminal of eight colours is enough"
term_start 80 24 "TERM=screen $driver near"
term_wait "verdict"
term_colors | grep -qE '\[3[0-7]m|;3[0-7]m' || fail "no colour"
! term_colors | grep -q '38;5;' || fail "a colour of 256"
term_end
done_

step "in the C locale everything is ASCII"
term_start 80 24 "LC_ALL=C $driver near"
term_wait "+- verdict"
term_wait "phi       ###"
! term_screen | LC_ALL=C grep -q '[^ -~]' || fail "not ASCII"
term_end
done_

step "fifty frames as fast as they come end well"
term_shell 120 40
term_type "$driver -i 0 -n 50 near; echo ended \$?"
term_key Enter
term_wait "ended 0"
term_end
done_

echo "1..$n"
