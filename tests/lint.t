#!/bin/sh
# lint.t - what must hold for the source as a whole
# time limit: 2400 s
cd "$(dirname "$0")/.." || exit 1
O=${O:-build}
. tests/tap.sh
sources() { git ls-files '*.c' '*.h'; }

format() {
	f=$(command -v clang-format-14 || command -v clang-format) || return 1
	sources | xargs "$f" --dry-run -Werror
}
# A function of more than 80 lines or a file of more than 600 is refused.
sizes() { sources | xargs tests/sizes.py; }
no_paths() {
	! git grep -nE '/(work|root|home)/[a-z]|(pypi|debian|ubuntu)\.(org|com)' \
		-- ':!LICENSE' ':!tests/data' ':!tests/lint.t'
}
check_cppcheck() {
	# not among the BPF programs, as text, which take minutes to read
	mkdir -p "$O/lint/wire" && cp "$O"/wire/*.pb-c.h "$O/lint/wire" &&
	cppcheck -q --enable=warning,portability,performance --inline-suppr \
		--std=c11 --error-exitcode=1 --suppress=missingIncludeSystem \
		-I . -I "$O/lint" -D__x86_64__ -D_GNU_SOURCE -j 2 \
		'-DLIBBPF_OPTS(type,name,...)=struct type name={__VA_ARGS__}' \
		--suppressions-list=tests/cppcheck.suppress \
		$(git ls-files '*.c' ':!*.bpf.c' ':!tests/unit')
}
analyze() {
	git ls-files '*.c' ':!*.bpf.c' ':!tests' | xargs -P 2 -n 4 clang \
		--analyze --analyzer-output text -Xclang -analyzer-werror \
		-std=gnu11 -D_GNU_SOURCE -iquote . -isystem "$O"
}
exports() {
	nm -D --defined-only "$O/libmoetop-agent.so" | awk '{print $3}' |
		grep -v '^_' | grep -vx InitializeInjection && return 1
	nm -D --defined-only "$O/libmoetop-agent.so" |
		grep -q ' InitializeInjection$'
}
stack() {
	find "$O" \( -path "$O/san" -o -path "$O/clang" -o -path "$O/fuzz" \) \
		-prune -o -name '*.bpf.o' -print | sort | xargs tests/stack.py
}
# Three frames of 168 bytes, rounded up to 192, below one of nothing.
deep() {
	mkdir -p "$O/lint" &&
	clang -O2 -target bpf -mcpu=v2 -x c -c -o "$O/lint/deep.o" - <<-'END' &&
	#define FRAME(x) long a[21]; asm volatile("" : : "r"(a), "r"(x) : "memory")
	#define CALLED __attribute__((noinline)) long
	CALLED last(long x) { FRAME(x); return a[20]; }
	static CALLED middle(long x) { FRAME(x); return last(a[20]) + a[0]; }
	CALLED first(long x) { FRAME(x); return middle(a[20]) + a[0]; }
	__attribute__((section("raw_tp/x"))) long on_x(void *c)
	{ return first((long)c); }
	END
	! tests/stack.py "$O/lint/deep.o" >"$O/lint/deep.txt" &&
	grep -F '608 of 512 bytes of stack, 96 too many: on_x 32 > first 192 > middle 192 > last 192' "$O/lint/deep.txt"
}

t "the layers include only what they may" tests/check_includes.sh
t "clang-format has nothing to change" format
t "functions and files are of a readable size" sizes
t "no path of a machine and no registry is named" no_paths
t "the agent exports one symbol" exports
t "no chain of calls in a BPF program needs more stack than there is" stack
printf '%s\n' "$out" | sed 's/^/# /'
t "and a chain that does is told" deep
t "cppcheck finds nothing" check_cppcheck
t "the clang analyser finds nothing" analyze
finish
