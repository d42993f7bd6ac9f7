#!/bin/sh
# check.sh - what only a real GPU can confirm, in a few minutes, unattended
#
# Builds a small CUDA program with nvcc, runs it with the real agent and the
# real CUPTI, and prints one line per assumption: ok, FAIL or skip, the number
# of the assumption in the project's list of risks, and what was found.
# O names the build folder (default build).  Exit: 0 all ok, 1 a FAIL, 77 no GPU
# or no nvcc here.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
O=$(realpath "${O:-build}")
NVCC=${NVCC:-$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || :)}

if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
	echo "skip: no NVIDIA GPU on this machine; nothing was checked"
	exit 77
fi
if [ -z "$NVCC" ]; then
	echo "skip: no nvcc; install the CUDA toolkit or set NVCC"
	exit 77
fi
if [ ! -e "$O/libmoetop-agent.so" ]; then
	echo "FAIL: $O/libmoetop-agent.so is missing; run make first"
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cuda=$(dirname "$(dirname "$(realpath "$NVCC")")")
lib=$cuda/lib64
[ -d "$lib" ] || lib=$cuda/lib
# The shared runtime, as PyTorch has it; libcupti lies beside it or in extras.
"$NVCC" -O2 -cudart shared -o "$work/moe_steps" "$here/moe_steps.cu" \
	-L"$lib" -Xlinker -rpath="$lib" -ldl
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null ||
	:

python3 "$here/check.py" "$O/libmoetop-agent.so" "$work/moe_steps" \
	"$O/moetop" "$cuda"
