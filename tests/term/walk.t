#!/bin/sh
# walk.t - docs/SCREENS.md walks through three scenarios: its commands and keys
# are tried, and the words that it promises must be on the screen
# time limit: 600 s
cd "$(dirname "$0")/../.." || exit 1
. tests/term/term.sh
O=$(realpath "$O")
export HOME="$T"

# command / key TAB words, in the order of the text
sed -n '/^## Walked through/,/^## 1 /{
	s/^    \(moetop .*\)/\1/p
	s/^\* `\([0-9]\)`: `\([^`]*\)`.*/\1	\2/p
}' docs/SCREENS.md >"$T/walk"
[ "$(grep -c '^moetop demo' "$T/walk")" = 3 ] || { echo "not ok 1 - three"; exit 1; }
tab=$(printf '\t')

while IFS="$tab" read -r key words; do
	case $key in
	moetop*)
		[ -z "$command" ] || done_
		command=$key
		step "$command"
		term_start 120 36 "HOME=$T $O/$command"
		term_wait "q quit"
		;;
	*)
		term_key "$key"
		term_wait "$words"
		;;
	esac
done <"$T/walk"
done_
term_end

echo "1..$n"
