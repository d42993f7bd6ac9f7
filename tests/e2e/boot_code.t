#!/bin/sh
# boot_code.t - the boot code stands alone: it runs before its library is loaded,
# so it may refer to nothing outside its own section
cd "$(dirname "$0")/../.." || exit 1
O=${O:-build}
. tests/tap.sh
# Only the two ends of the section, which the linker knows.
symbols() {
	nm -u "$1" | awk '{print $2}' |
		grep -vxE '__(start|stop)_moetop_boot' && return 1
	return 0
}
# No data, no constants, no code anywhere else.
sections() {
	size -A "$1" | awk '$1 ~ /^\.(text|data|bss|rodata|tdata|tbss)/ &&
		$2 > 0 { print; bad = 1 } END { exit bad }'
}
# What is left to the linker is relative to the code itself.
relocations() {
	readelf -rW "$1" | awk '/^Relocation section/ { boot = /moetop_boot/ }
		boot && /R_/ && !/R_X86_64_(PC32|PLT32)|R_AARCH64_(PREL|CALL|JUMP|ADR_PREL)/ {
			print; bad = 1 } END { exit bad }'
}
one_piece() {
	readelf -lW "$1" | awk '/moetop_boot/ { n++ } END { exit n != 1 }'
}
no_relocation_at_run_time() {
	place=$(readelf -SW "$1" | awk '{ for (i = 1; i < NF; i++)
		if ($i == "moetop_boot") print "0x" $(i+2), "0x" $(i+4) }')
	low=$(printf %016x $((${place% *})))
	end=$(printf %016x $((${place% *} + ${place#* })))
	readelf -rW "$1" | awk -v low="$low" -v end="$end" '
		$1 ~ /^[0-9a-f]+$/ { at = sprintf("%16s", $1); gsub(/ /, "0", at)
			n++; if (at "" >= low "" && at "" < end "") {
				print; bad = 1 } }
		END { exit bad || !n }'
}

boot=$O/agent/boot.pic.o
t "it refers to nothing but the ends of its section" symbols "$boot"
t "it has no constants and no data" sections "$boot"
t "all its references are relative" relocations "$boot"
if command -v clang >/dev/null; then
	d=$(mktemp -d); trap 'rm -rf "$d"' EXIT
	clang -std=gnu11 -D_GNU_SOURCE -iquote . -O2 -ffreestanding \
		-fno-stack-protector -fno-jump-tables -mgeneral-regs-only \
		-fPIC -fvisibility=hidden -c -o "$d/boot.o" agent/boot.c
	t "clang: it refers to nothing but the ends of its section" \
		symbols "$d/boot.o"
	t "clang: it has no constants and no data" sections "$d/boot.o"
	t "clang: all its references are relative" relocations "$d/boot.o"
fi
t "the library has it in one piece" one_piece "$O/libmoetop-agent.so"
t "the loader changes nothing in it" \
	no_relocation_at_run_time "$O/libmoetop-agent.so"
finish
