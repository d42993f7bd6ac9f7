#!/bin/sh
# cross_aarch64.t - the agent, the injector and what they use, built for 64-bit
# Arm without a warning; what they have for that processor at work in qemu.
cd "$(dirname "$0")/../.." || exit 1
T=$(mktemp -d) || exit 1
trap 'rm -rf "$T"' EXIT
CC=aarch64-linux-gnu-gcc
. tests/tap.sh
command -v $CC >/dev/null && command -v qemu-aarch64-static >/dev/null || {
	echo "1..0 # SKIP no compiler for aarch64, or no qemu-aarch64-static"
	exit 0
}

# Headers of libraries that are the same for every machine.
mkdir "$T/include"
for h in jansson.h jansson_config.h; do
	for d in /usr/include /usr/include/*-linux-gnu; do
		[ ! -e "$d/$h" ] || ln -sf "$d/$h" "$T/include/$h"
	done
done
flags="-std=gnu11 -D_GNU_SOURCE -iquote . -isystem $T/include -O1 -Wall
	-Wextra -Wshadow -Wconversion -Wvla -Wstrict-prototypes
	-Wmissing-prototypes -Werror"

compile() {
	mkdir -p "$T/o"
	printf '%s\n' target/*.c wire/*.c cupti/*.c agent/*.c |
		grep -v '^agent/boot.c$' | xargs -P 2 -I{} sh -c "$CC \
		$(echo $flags) -fPIC -fvisibility=hidden -c \
		-o $T/o/\$(echo {} | tr / _).o {} || exit 255" &&
	$CC $flags -fPIC -fvisibility=hidden -O2 -ffreestanding \
		-fno-stack-protector -fno-jump-tables -mgeneral-regs-only \
		-c -o "$T/o/agent_boot.c.o" agent/boot.c
}
link_agent() {
	set -- "$T"/o/agent_*.o "$T"/o/wire_ring.c.o
	for o in "$T"/o/cupti_*.o; do
		case $o in */cupti_nvml.c.o) ;; *) set -- "$@" "$o" ;; esac
	done
	$CC -shared -Wl,-z,defs -Wl,-Bsymbolic -Wl,-z,nodelete \
		-Wl,--version-script=agent/agent.map -o "$T/agent.so" "$@" \
		-ldl -lpthread
}
build_programs() {
	$CC $flags -o "$T/inject" tests/cross/inject_aarch64.c \
		target/inject_aarch64.c &&
	$CC $flags -o "$T/boot" tests/cross/boot_aarch64.c -ldl -lpthread
}
# at_work CHECKS PROGRAM [ARGUMENT]
at_work() {
	want=$1; shift
	timeout 60 qemu-aarch64-static -L /usr/aarch64-linux-gnu "$@" \
		>"$T/tap" 2>&1
	rc=$?
	cat "$T/tap"
	test "$rc" = 0 -a "$(grep -c '^ok' "$T/tap")" = "$want"
}

t "target, wire, cupti and agent compile for aarch64 without a warning" compile
t "the agent links for aarch64" link_agent
t "its test programs build" build_programs
t "registers, frame and gadgets: 25 checks" at_work 25 "$T/inject"
t "the boot code loads the agent: 7 checks" at_work 7 "$T/boot" "$T/agent.so"
finish
