# tap.sh - results of a shell test, as TAP: t NAME COMMAND..., then finish
n=0 bad=0
t() {
	n=$((n + 1)) name=$1; shift
	if out=$("$@" 2>&1); then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"; bad=1
		printf '%s\n' "$out" | head -60 | sed 's/^/# /'
	fi
}
finish() { echo "1..$n"; exit $bad; }
