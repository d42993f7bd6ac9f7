#!/bin/sh
# deps.sh - install what is missing; do nothing, and need no network, when
# everything is there.
#
#   tools/deps.sh build	what the programs and the demo need
#   tools/deps.sh test	and what the tests need
#   tools/deps.sh kernels	and what make test-kernels needs
#
# Debian 12 and Ubuntu 22.04 or later.  Packages come from apt; CUPTI's headers
# and library, where no CUDA toolkit is found, and Prometheus are unpacked below
# build/ and never installed into the system.
set -eu

O=${O:-build}
what=${1:-test}

build_packages="gcc make pkg-config libc6-dev clang llvm libbpf-dev libelf-dev
	zlib1g-dev libncurses-dev protobuf-c-compiler libprotobuf-c-dev
	libjansson-dev libmicrohttpd-dev libevent-dev libcurl4-openssl-dev
	libgnutls28-dev libyaml-dev libcrypt-dev"
test_packages="libcmocka-dev tmux cppcheck clang-format-14 perl curl iproute2
	procps util-linux git binutils python3 python3-pip python3-fastapi
	python3-uvicorn python3-uvloop python3-httptools musl-tools libjemalloc2
	strace valgrind python3-venv python3-setuptools python3-wheel systemd
	nghttp2-server nghttp2-client
	python3-prometheus-client python3-protobuf protobuf-compiler openssl libssl-dev"
# Only there is a compiler for 64-bit Arm a cross compiler.
[ "$(dpkg --print-architecture 2>/dev/null)" != amd64 ] ||
	test_packages="$test_packages gcc-aarch64-linux-gnu
	libc6-dev-arm64-cross qemu-user-static"

have() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null |
	grep -qx installed; }
offered() { apt-cache show "$1" >/dev/null 2>&1; }
die() { echo "moetop: deps: $*" >&2; exit 1; }

updated=
apt_update() {
	[ -n "$updated" ] || apt-get update -qq || die "apt-get update failed;" \
		"connect to the network, or install by hand: $*"
	updated=1
}

apt_install() {
	missing=
	for p; do
		have "$p" || missing="$missing $p"
	done
	[ -n "$missing" ] || return 0
	[ "$(id -u)" = 0 ] || die "not root;" \
		"run: sudo apt-get install -y --no-install-recommends$missing"
	apt_update $missing
	echo "  APT  $missing"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends $missing >"$O/apt.log" 2>&1 ||
		{ tail -20 "$O/apt.log" >&2; die "apt-get install failed"; }
}

# Debian has a package bpftool; Ubuntu ships it among its kernel tools.
install_bpftool() {
	for f in /usr/sbin/bpftool /sbin/bpftool /usr/lib/linux-tools/*/bpftool \
		/usr/lib/linux-tools-*/bpftool; do
		[ -x "$f" ] && "$f" version >/dev/null 2>&1 && return 0
	done
	apt_update bpftool
	if offered bpftool && apt-cache policy bpftool |
		grep -q 'Candidate: [0-9]'; then
		apt_install bpftool
	else
		apt_install linux-tools-generic
	fi
}

# The sanitizers of clang and libFuzzer: a package of its own on Debian.
install_clang_rt() {
	major=$(clang --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
	echo 'int main(void){return 0;}' >"$O/probe.c"
	clang -fsanitize=address -o "$O/probe" "$O/probe.c" 2>/dev/null &&
		return 0
	apt_install "libclang-rt-$major-dev"
}

# The server and its tool, never installed: nothing listens by itself.
install_prometheus() {
	command -v promtool >/dev/null && command -v prometheus >/dev/null &&
		return 0
	[ -x "$O/tools/promtool" ] && [ -x "$O/tools/prometheus" ] && return 0
	apt_update prometheus
	echo "  GET   prometheus promtool"
	mkdir -p "$O/tools"
	(cd "$O/tools" && apt-get download -qq prometheus >/dev/null 2>&1 &&
		dpkg-deb -x prometheus_*.deb deb &&
		cp deb/usr/bin/promtool deb/usr/bin/prometheus . &&
		rm -rf deb prometheus_*.deb) || die "cannot fetch prometheus"
}

# Headers and library of CUPTI, to prove the record offsets and to load the
# agent beside the real library.
install_cupti() {
	for d in "${CUDA_HOME:-/usr/local/cuda}"; do
		[ -e "$d/include/cupti.h" ] && return 0
		[ -e "$d/extras/CUPTI/include/cupti.h" ] && return 0
	done
	[ -e "$O/cupti/include/cupti.h" ] && return 0
	echo "  PYPI  nvidia-cuda-cupti nvidia-cuda-runtime nvidia-cuda-crt"
	rm -rf "$O/cupti.tmp"
	python3 -m pip download -q --no-deps --disable-pip-version-check \
		-d "$O/cupti.tmp" 'nvidia-cuda-cupti==13.5.*' \
		'nvidia-cuda-runtime==13.5.*' 'nvidia-cuda-crt==13.5.*' ||
		die "cannot fetch nvidia-cuda-cupti with pip"
	mkdir -p "$O/cupti/include" "$O/cupti/lib"
	for w in "$O"/cupti.tmp/*.whl; do
		python3 -m zipfile -e "$w" "$O/cupti.tmp/x"
	done
	find "$O/cupti.tmp/x" -type d -name include |
		while read -r d; do cp -r "$d"/. "$O/cupti/include/"; done
	find "$O/cupti.tmp/x" -name 'libcupti.so*' -exec cp {} "$O/cupti/lib/" \;
	rm -rf "$O/cupti.tmp"
	[ -e "$O/cupti/include/cupti.h" ] || die "no cupti.h in the package"
}

# A libcupti that knows its chips without a driver (13.0; 13.5 asks for one), to
# prove which counters take one pass.
install_cupti_host() {
	for f in "${CUDA_HOME:-/usr/local/cuda}"/lib64/libnvperf_host.so \
		"${CUDA_HOME:-/usr/local/cuda}"/extras/CUPTI/lib64/libnvperf_host.so \
		"$O/cupti-13.0/lib/libnvperf_host.so"; do
		[ ! -e "$f" ] || return 0
	done
	echo "  PYPI  nvidia-cuda-cupti 13.0"
	rm -rf "$O/cupti.tmp"
	python3 -m pip download -q --no-deps --disable-pip-version-check \
		-d "$O/cupti.tmp" 'nvidia-cuda-cupti==13.0.*' ||
		die "cannot fetch nvidia-cuda-cupti with pip"
	mkdir -p "$O/cupti-13.0/lib"
	python3 -m zipfile -e "$O"/cupti.tmp/*.whl "$O/cupti.tmp/x"
	find "$O/cupti.tmp/x" \( -name 'libcupti.so*' -o \
		-name libnvperf_host.so \) -exec cp {} "$O/cupti-13.0/lib/" \;
	rm -rf "$O/cupti.tmp"
}

# Schemas of Grafana and Kubernetes, in an environment of their own.
install_deploy_tools() {
	wanted=tests/deploy/requirements.txt
	cmp -s "$wanted" "$O/tools/deploy/requirements.txt" && return 0
	echo "  PYPI  what $wanted names"
	rm -rf "$O/tools/deploy"
	mkdir -p "$O/tools"
	python3 -m venv "$O/tools/deploy" &&
		"$O/tools/deploy/bin/python" -m pip install -q \
			--disable-pip-version-check -r "$wanted" ||
		die "cannot install the packages of $wanted"
	cp "$wanted" "$O/tools/deploy/"
}

# What the request tracker is held against: servers in an environment of their
# own, and the program of nginx, never installed: nothing listens by itself.
install_servers() {
	wanted=tests/e2e/servers.txt
	if ! cmp -s "$wanted" "$O/tools/servers/servers.txt"; then
		echo "  PYPI  what $wanted names"
		rm -rf "$O/tools/servers"
		mkdir -p "$O/tools"
		python3 -m venv "$O/tools/servers" &&
			"$O/tools/servers/bin/python" -m pip install -q \
				--disable-pip-version-check -r "$wanted" ||
			die "cannot install the packages of $wanted"
		cp "$wanted" "$O/tools/servers/"
	fi
	! command -v nginx >/dev/null && [ ! -x "$O/tools/nginx" ] || return 0
	p=nginx-core # Debian has the program in nginx itself since 12
	! apt-cache show nginx 2>/dev/null | grep -q '^Depends:.*libc6' ||
		p=nginx
	apt_update $p
	echo "  GET   $p"
	mkdir -p "$O/tools"
	(cd "$O/tools" && apt-get download -qq $p >/dev/null 2>&1 &&
		dpkg-deb -x ${p}_*.deb deb && cp deb/usr/sbin/nginx . &&
		rm -rf deb ${p}_*.deb) || die "cannot fetch nginx"
}

[ -r /etc/debian_version ] ||
	die "this is no Debian or Ubuntu; install by hand: $build_packages"
mkdir -p "$O"
case $what in
build)
	apt_install $build_packages
	install_bpftool
	;;
test)
	apt_install $build_packages $test_packages
	install_bpftool
	install_clang_rt
	install_prometheus
	install_cupti
	install_cupti_host
	install_deploy_tools
	install_servers
	;;
kernels)
	apt_install qemu-system-x86 busybox-static cpio
	;;
*)
	die "unknown set '$what'; use: tools/deps.sh build|test|kernels"
	;;
esac
