#!/bin/sh
# screen.t - every key, on a screen that shows made-up snapshots
# time limit: 600 s
cd "$(dirname "$0")/../.." || exit 1
. tests/term/term.sh
driver=$O/tests/term/driver

step "the overview is shown"
# A message stays for some snapshots: a new one comes at a key, else seldom.
term_start 100 30 "$driver -i 20000 near"
term_wait "IN THE VALLEY, near side."
term_wait "1 overview  2 layers"
done_

step "every number shows its screen"
term_key 2; term_wait "DRAM/step"
term_key 3; term_wait "rows per expert"
term_key 4; term_wait "since attach"
term_key 5; term_wait "gemm.grouped_tri"
term_key 6; term_wait "c what-if cursor"
term_key 1; term_wait "verdict"
done_

step "Tab and Shift-Tab go round the screens"
term_key Tab; term_wait "DRAM/step"
term_key Tab; term_wait "rows per expert"
term_key BTab; term_wait "DRAM/step"
term_key BTab; term_wait "verdict"
term_key BTab; term_wait "c what-if cursor"
term_key 1; term_wait "verdict"
done_

step "help comes and goes by ?, h, F1 and Esc"
term_key '?'; term_wait "kernel window now"
term_key h; term_wait "verdict"
term_key F1; term_wait "kernel window now"
term_key Escape; term_wait "verdict"
done_

step "s, R and the arrows order a table and move in it"
term_key 2; term_wait "layer▼"
term_key s; term_wait "µs/step▼"
term_key R; term_wait "µs/step▲"
term_key r; term_wait "layer▼"
term_key End; term_wait "     93 "
term_key Home; term_gone "     93 "
term_key PageDown PageDown; term_gone "      0 "
term_key Home; term_wait "      0 "
term_key Up; term_key Escape
done_

step "/ filters while it is typed; Esc takes it back, Enter keeps it"
term_key 5; term_wait "attn.decode"
term_key /; term_wait "filter"
term_type "COMM.all"; term_gone "attn.decode"; term_wait "comm.allreduce"
term_key Escape; term_wait "attn.decode"
term_key /; term_type "no kernel"; term_wait "no row has that word"
term_key C-u; term_type "rms"; term_gone "attn.decode"
term_key Enter; term_wait " only rms"
term_key Escape; term_wait "attn.decode"
term_key 1; term_wait "verdict"
done_

step "e explains a number, arrows go to others"
term_key e; term_wait "formula"; term_wait "good?"
before=$(term_screen | grep ' · .*_')
term_key Down; until_ eval '[ "$(term_screen | grep " · .*_")" != "$before" ]' ||
	fail "the same number"
term_key Home Right End Left Up; term_wait "formula"
term_key e; term_gone "good?"
done_

step "z zooms the history"
term_wait "last 5 min"
term_key z; term_wait "last 1 min"
term_key z; term_wait "last 15 s"
term_key z; term_wait "last 5 min"
done_

step "c shows the what-if cursor, wherever one is; arrows move it"
term_key c; term_wait "○ cursor B ="
before=$(term_screen | grep '○ cursor' | sed 's/.*○ cursor//')
term_key Right Right Right
until_ eval '[ "$(term_screen | grep "○ cursor" | sed "s/.*○ cursor//")" != "$before" ]' ||
	fail "it stays"
term_key c; term_gone "○ cursor"
done_

step "the heat map has its own keys"
term_key 3; term_wait "layer 0, expert 0"
term_key Down Right; term_gone "layer 0, expert 0"
term_key g; term_key n; term_key r; term_wait "layer 0, expert 0"
term_key 1; term_wait "verdict"
done_

step "space holds the picture and lets it go"
term_key Space; term_wait "PAUSED"
term_key Space; term_gone "PAUSED"
done_

step "+, - and w reach the program"
term_key +; term_wait "interval 10000 ms"
term_key -; term_wait "interval 20000 ms"
term_key w; term_wait "kernel window"
done_

step "l shows the messages with their time"
term_key l; term_wait "messages"; term_wait "interval 10000 ms"
term_key l; term_gone "messages"
done_

step "t goes through the themes, and colours follow"
term_key t; term_wait "theme dark"
until_ eval 'term_colors | grep -q "48;5;"' || fail "no background"
for theme in light contrast contrast-light colorblind colorblind-light \
		solar-dark solar-light amber mono; do
	term_key t; term_wait "theme $theme:"
done
! term_colors | grep -qE '[34]8;5;' || fail "colours in mono"
term_key t; term_wait "theme default"
done_

step "Ctrl-L draws all again after somebody wrote over it"
tty=$(tm display -p '#{pane_tty}')
printf '\033[H\033[2Jspoilt' >"$tty"; term_wait "spoilt"
term_key C-l; term_gone "spoilt"; term_wait "verdict"
done_

step "a key that nobody has does nothing"
term_key x F12 C-o; term_wait "verdict"
done_

step "Ctrl-S stops nothing"
term_key C-s; term_key 2; term_wait "DRAM/step"
term_key 1; term_wait "verdict"
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
term_key l; term_wait "the target is gone"
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

step "24 bits where the terminal says so, or the user"
term_start 80 24 "COLORTERM=truecolor $driver near"
term_wait "verdict"
term_colors | grep -q '38;2;' || fail "no 24 bits"
term_end
done_

step "a terminal of eight colours is enough"
term_start 80 24 "TERM=screen $driver near"
term_wait "verdict"
term_colors | grep -qE '\[3[0-7]m|;3[0-7]m' || fail "no colour"
! term_colors | grep -q '38;5;' || fail "a colour of 256"
term_end
done_

for term in xterm-256color tmux linux vt100; do
	step "TERM=$term"
	term_start 80 24 "TERM=$term $driver near"
	term_wait "IN THE VALLEY"; term_wait "q quit"
	term_key 2; term_wait "DRAM/step"
	term_end
	done_
done

step "TERM=dumb is refused"
term_shell 80 24
term_type "TERM=dumb $driver near; echo ended \$?"
term_key Enter; term_wait "ended 1"
term_end
done_

step "in the C locale everything is ASCII"
term_start 80 24 "LC_ALL=C $driver near"
term_wait "+- verdict"
term_wait "phi       ###"
for screen in 2 3 4 5 6 '?' e 1; do
	term_key "$screen"; term_wait "q quit"
	! term_screen | LC_ALL=C grep -q '[^ -~]' || fail "not ASCII"
done
term_end
done_

echo "1..$n"
