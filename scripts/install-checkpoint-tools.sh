#!/usr/bin/env bash
# Installs what writes the checkpoints that tests read: PyTorch, safetensors and DeepSpeed, into a virtual environment
# of their own. Does nothing, quickly, when all is there.
#
#     scripts/install-checkpoint-tools.sh [FOLDER]    into FOLDER, by default build/checkpoint-venv
#
# It takes some 5 GB. PyPI's PyTorch is built for CUDA and does not start without CUDA's libraries, so these are installed,
# too, though no test needs a GPU. What it loads only when it is used is left out, which saves 1 GB: the compiler Triton, and
# the libraries of dense solvers and of marks for profilers. pip would install them as dependencies, so PyTorch comes
# without its dependencies, and those that it needs are read from its own list, with their versions. DeepSpeed's own parts
# in C++ are not built now, but when it first runs; a C++ compiler has to be there then.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${1:-build/checkpoint-venv}
python=$venv/bin/python
[[ -x $python ]] || python3 -m venv "$venv"

if ! "$python" -c 'import torch, safetensors, deepspeed, pytest' >/dev/null 2>&1; then
  pip=("$venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check)
  "${pip[@]}" --no-deps torch
  needed=$(
    "$python" - <<'PROGRAM'
import importlib.metadata
import re

UNUSED = {"cusolver", "curand", "nvtx"}
for line in importlib.metadata.requires("torch"):
    requirement, _, condition = (part.strip() for part in line.partition(";"))
    if "extra" in condition or requirement.startswith(("triton", "cuda-bindings")):
        continue
    extras = re.search(r"\[(.*)\]", requirement)
    if extras:
        kept = ",".join(name for name in extras[1].split(",") if name not in UNUSED)
        requirement = requirement.replace(extras[1], kept)
    print(requirement)
PROGRAM
  )
  mapfile -t needed <<<"$needed"
  "${pip[@]}" "${needed[@]}" numpy safetensors pytest wheel
  # DeepSpeed's setup asks the PyTorch that is there, so it may not be built apart; its dependencies name no torch of theirs.
  "${pip[@]}" einops hjson msgpack ninja packaging psutil py-cpuinfo pydantic tqdm
  DS_BUILD_OPS=0 "${pip[@]}" --no-deps --no-build-isolation deepspeed
fi
"$python" - <<'PROGRAM'
import importlib.metadata

for name in ("torch", "safetensors", "deepspeed", "numpy"):
    print(name, importlib.metadata.version(name))
PROGRAM
echo "Tests: $python -m pytest --noconftest tests/torch/foreign_checkpoint_test.py"
