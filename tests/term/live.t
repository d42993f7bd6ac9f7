#!/bin/sh
# live.t - the screen on a simulated server: options that are kept, the picker,
# and sources that are stuck
# time limit: 600 s
cd "$(dirname "$0")/../.." || exit 1
. tests/term/term.sh
O=$(realpath "$O")
unset XDG_CONFIG_HOME
export HOME="$T/home"
mkdir "$HOME"
config=$HOME/.config/moetop/config
pids=
stop() { for p in $pids; do kill -CONT $p; kill $p; done 2>/dev/null; }
trap 'stop; term_end; rm -rf "$T"' EXIT

# server - another simulated server; its pid in $server
server() {
	"$O/sim/moetop-sim" --model sim/models/qwen3-30b.json --gpu H200 \
		--port 0 --scenario steady-16 >"$T/sim.$#$pids" 2>&1 &
	server=$!
	pids="$pids $server"
}
server; first=$server
server; second=$server
# moetop ARGUMENTS... - in a terminal, with this home
screen() {
	term_start 110 36 "HOME=$HOME MOETOP_NVML=$T/stuck.so \
		$O/moetop --no-inject --no-bpf $*"
}
printf '#include <unistd.h>\nint nvmlInit_v2(void){for(;;)pause();}\n' |
	cc -shared -fPIC -x c - -o "$T/stuck.so"

step "without a file every option has its default"
"$O/moetop" config check >"$T/out" || fail "$(cat "$T/out")"
grep -q "not there, every option has its default" "$T/out" || fail "said $(cat "$T/out")"
"$O/moetop" config show | grep -q '^theme  *default  *default$' || fail "theme"
done_

step "the picker shows the servers, a filter and Enter pick one"
screen
term_wait "which server?"
term_wait " $first "; term_wait " $second "
term_key /; term_type "$second"; term_gone " $first "
term_key Enter; term_wait " only $second"
term_key Enter; term_wait "pid $second"
done_

step "what is set up takes effect, and is saved"
term_key S; term_wait "set up"
term_wait "theme"
term_key Down Down Down
until_ eval 'term_colors | grep " theme" | grep -q "\[7m"' || fail "no mark"
term_key Right; term_wait "theme = dark"
until_ eval 'term_colors | grep -q "48;5;"' || fail "no background"
term_key w; term_wait "saved to $config"
[ "$(cat "$config")" = "theme = dark" ] || fail "it says $(cat "$config")"
term_key Escape; term_gone "set up"
term_key q
until_ eval '! tm has-session 2>/dev/null' || fail "still running"
done_

step "it is there again at the next start; comments and unknown lines stay"
printf '# mine\nfuture = 1\nscreen = requests\n' >>"$config"
screen -p "$first"
term_wait "since attach"
term_wait "line 3: 'future' is no option"
until_ eval 'term_colors | grep -q "48;5;"' || fail "the theme is forgotten"
term_key t S; term_wait "set up"; term_wait "own file"
term_key w; term_wait "saved to"
[ "$(cat "$config")" = "theme = light
# mine
future = 1
screen = requests" ] || fail "it says $(cat "$config")"
term_end
done_

step "arguments overrule --config, which overrules the file of the user"
echo "screen = layers
budget = 3" >"$T/other"
"$O/moetop" config show --config "$T/other" --budget 4 >"$T/out" 2>&1
grep -q "^theme  *light  *$config$" "$T/out" &&
	grep -q "^screen  *layers  *$T/other$" "$T/out" &&
	grep -q "^budget  *4  *argument$" "$T/out" || fail "$(cat "$T/out")"
done_

step "config check names every bad line, and ends with 2"
echo "interval = soon" >>"$config"
"$O/moetop" config check >"$T/out" 2>&1
[ $? = 2 ] || fail "status"
grep -q "line 3: 'future' is no option" "$T/out" &&
	grep -q "line 5: --interval: 'soon' is not a number" "$T/out" ||
	fail "$(cat "$T/out")"
"$O/moetop" config check "$T/other" >/dev/null || fail "a good one is bad"
"$O/moetop" -p "$first" --config "$config" --json --count 1 >"$T/out" 2>&1
[ $? = 2 ] || fail "--config with a bad line is taken"
rm "$config"
done_

step "a driver of the GPU that hangs does not stop the screen"
term_start 110 36 "HOME=$HOME MOETOP_NVML=$T/stuck.so $O/moetop -p $first"
term_wait "verdict"
until_ eval 'term_screen | grep -q "kernels [0-9]* s ago"' || fail "no kernels"
term_key 4; term_wait "since attach"
term_key 1; term_wait "verdict"
done_

step "a server that is stopped is called silent, keys answer"
kill -STOP "$first"
term_key 4; term_wait "since attach"
term_wait "agent silent"
term_key 2; term_wait "DRAM/step"
term_key e; term_wait "formula"
term_key e; term_key 1; term_wait "agent is silent"
kill -CONT "$first"
term_gone "agent silent"
done_

step "its end is said, and the last state kept"
kill -KILL "$first"
term_wait "target gone at"
term_key 2; term_wait "DRAM/step"
term_key q
until_ eval '! tm has-session 2>/dev/null' || fail "still running"
done_

echo "1..$n"
