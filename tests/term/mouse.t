#!/bin/sh
# mouse.t - the mouse wherever a key does something, and sizes that change
# time limit: 600 s
cd "$(dirname "$0")/../.." || exit 1
. tests/term/term.sh
driver=$O/tests/term/driver

# Reports as a terminal sends them, columns and rows from 1.
press() { term_type "$(printf '\033[<0;%d;%dM' "$1" "$2")"; }
drag() { term_type "$(printf '\033[<32;%d;%dM' "$1" "$2")"; }
release() { term_type "$(printf '\033[<0;%d;%dm' "$1" "$2")"; }
click() { press "$1" "$2"; release "$1" "$2"; }
right_click() { term_type "$(printf '\033[<2;%d;%dM' "$1" "$2")"; }
wheel() { term_type "$(printf '\033[<%d;10;10M' "$1")"; }
# where TEXT - "column row" of its first place on the screen, from 1
where() {
	row=$(term_screen | grep -nF -- "$1" | head -1 | cut -d: -f1)
	line=$(term_screen | sed -n "${row}p")
	columns=$(printf %s "${line%%"$1"*}" | LC_ALL=C.UTF-8 wc -m)
	echo $((columns + 1)) "$row"
}
click_on() { set -- $(where "$1"); [ $# = 2 ] && click "$1" "$2"; }

step "the terminal is asked for the mouse"
term_start 100 30 "$driver near"
term_wait "verdict"
until_ eval '[ "$(tm display -p "#{mouse_sgr_flag}#{mouse_button_flag}")" = 11 ]' ||
	fail "no mouse"
done_

step "a click on the key bar is that key, in the old protocol too"
click_on "4 requests"; term_wait "since attach"
# Button 1 pressed and released at column 14, row 30: "2 layers".
term_type "$(printf '\033[M .>\033[M#.>')"; term_wait "DRAM/step"
done_

step "a click on a heading orders, another one turns it round"
click_on "active"; term_wait "active▼"
click_on "active▼"; term_wait "active▲"
click_on "µs/step"; term_wait "µs/step▼"
term_key r; term_wait "layer▼"
done_

step "a click marks a row, the wheel moves the mark"
click 20 10
until_ eval 'term_colors | sed -n 10p | grep -q "\[7m"' || fail "no mark"
wheel 65
until_ eval 'term_colors | sed -n 11p | grep -q "\[7m"' || fail "not moved"
wheel 64
until_ eval 'term_colors | sed -n 10p | grep -q "\[7m"' || fail "not back"
done_

step "a right click explains the number, a click another one"
set -- $(where "active")
right_click $(($1 + 3)) 10
term_wait "layer.active_experts"
term_key Escape; term_gone "layer.active_experts"
done_

step "the what-if cursor is dragged"
term_key c; term_wait "○ cursor B ="
cursor() { term_screen | grep '○ cursor' | sed 's/.*cursor B = *\([0-9.]*\).*/\1/'; }
press 40 8; until_ eval '[ -n "$(cursor)" ]' || fail "no cursor"
first=$(cursor)
drag 60 9; until_ eval '[ "$(cursor)" != "$first" ]' || fail "it stays"
second=$(cursor)
drag 300 2; until_ eval '[ "$(cursor)" != "$second" ]' || fail "it stays"
third=$(cursor)
release 80 9
drag 50 9; term_key 1; term_wait "verdict"; term_key 6; term_wait "○ cursor"
[ "$(cursor)" = "$third" ] || fail "moved without a button: $(cursor)"
done_

step "a click in the heat map moves its cursor"
term_key 3; term_wait "layer 0, expert 0"
click 30 9; term_gone "layer 0, expert 0"
done_

step "sequences that nobody knows are no keys"
term_key 1; term_wait "verdict"
term_type "$(printf '\033[<1;5;5M\033[200~\033[1;5D\033OX\033[5n')"
term_key x; term_wait "verdict"
done_

step "a larger terminal shows more at once"
term_size 140 50; term_wait "slowest first"
done_

step "a tiny one says what it needs, and nothing is lost"
term_size 30 8; term_wait "moetop needs 40x12"
term_size 3 2; term_gone "needs"
term_size 40 12; term_wait "IN THE VALLEY"
term_size 100 30; term_wait "One more request is"
term_gone "moetop needs"
done_

step "a storm of sizes ends in the right picture"
for i in $(seq 40); do
	tm resize-window -x $((30 + i * 7 % 190)) -y $((5 + i * 11 % 60))
done
term_size 100 30
term_wait "1 overview  2 layers"
term_key 2; term_wait "DRAM/step"
[ "$(term_screen | wc -l)" = 30 ] || fail "not 30 rows"
term_end
done_

step "200 frames as fast as they come end well"
term_shell 120 40
term_type "$driver -i 0 -n 200 near; echo ended \$?"
term_key Enter
term_wait "ended 0"
term_end
done_

echo "1..$n"
