#!/bin/sh
# restore.t - however the screen ends, the terminal is what it was before
# time limit: 600 s
cd "$(dirname "$0")/../.." || exit 1
. tests/term/term.sh
driver=$O/tests/term/driver

term_shell 80 24

# Looks at the modes before and after the screen.  It is no shell with job
# control, because those put the modes right themselves.
cat >"$T/run" <<END
trap : INT QUIT
echo before it
stty -g >$T/before
sh -c 'echo \$\$ >$T/pid; exec $driver near'
stty -g >$T/after
END
# show [.] - in a shell between, or in the one at the prompt
show() {
	rm -f "$T"/pid "$T"/after
	term_type "clear; ${1-sh} $T/run"
	term_key Enter
	term_wait "IN THE VALLEY"
	wait_file "$T/pid"
	pid=$(cat "$T/pid")
}
# Its modes, its screen, its cursor.
restored() {
	wait_file "$T/after"
	term_wait "before it"
	term_gone "IN THE VALLEY"
	cmp -s "$T/before" "$T/after" || fail "stty -g differs"
	[ "$(tm display -p '#{cursor_flag}')" = 1 ] || fail "no cursor"
	[ "$(tm display -p '#{mouse_any_flag}')" = 0 ] || fail "mouse is taken"
	[ "$(tm display -p '#{alternate_on}')" = 0 ] || fail "other screen"
}

step "quitting restores the terminal"
show; term_key q; restored
done_

for sig in TERM INT HUP QUIT SEGV BUS FPE ILL ABRT USR1 XCPU; do
	step "SIG$sig restores the terminal"
	show; kill -$sig "$pid"; restored
	done_
done

step "Ctrl-C restores the terminal"
show; term_key C-c; restored
done_

# Here the shell must be the parent: it writes as soon as its child has stopped.
step "Ctrl-Z gives the terminal to the shell, fg takes it back"
show .
term_key C-z
term_wait "Stopped"
term_gone "IN THE VALLEY"
term_key fg Enter
term_wait "IN THE VALLEY"
term_key 4; term_wait "since attach"
term_key q; restored
done_

step "SIGSTOP and fg bring the screen back"
show .
kill -STOP "$pid"
term_wait "Stopped"
term_key fg Enter
term_wait "One more request is"
term_key 5; term_wait "gemm.grouped_tri"
term_key q; restored
done_

step "SIGSTOP and SIGCONT without a shell draw the screen again"
term_end
term_start 80 24 "sh -c 'echo \$\$ >$T/pid2; exec $driver near'"
term_wait "IN THE VALLEY"
wait_file "$T/pid2"
kill -STOP "$(cat "$T/pid2")"
kill -CONT "$(cat "$T/pid2")"
term_key 4; term_wait "since attach"
term_end
done_

echo "1..$n"
