#!/usr/bin/env bash
# Imports a CUDA build of PyTorch with Harmonaize preloaded, on a machine with or without a GPU.
#
#     scripts/check-torch-import.sh [--library FILE] [VENV]
#
#     VENV            a virtual environment with PyTorch (default: build/torch-venv). One is made by
#                     scripts/install-torch.sh
#     --library FILE  the preload library (default: build/release/lib/libharmonaize-preload.so)
#
# CPython opens PyTorch's libraries with all symbols bound at once, so one symbol that the library lacks
# fails the import. The script checks
#
# 1. that the library has every symbol of NCCL's that PyTorch's libraries look for,
# 2. that the import succeeds, and that the process's NCCL is Harmonaize,
# 3. that stock NCCL is not loaded beside it.
#
# Status 0: all is so. 1: something is not. 2: it could not be tried.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
refuse() {
  echo "$0: $1; see $0 --help" >&2
  exit 2
}

library=build/release/lib/libharmonaize-preload.so
venv=build/torch-venv
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --library)
      (($# > 1)) || refuse "--library needs a file"
      library=$2
      shift
      ;;
    -*) refuse "unknown option '$1'" ;;
    *) venv=$1 ;;
  esac
  shift
done
[[ -f $library ]] || refuse "there is no $library: build harmonaize_preload first"
[[ -x $venv/bin/python ]] || refuse "there is no virtual environment at $venv"
library=$(realpath "$library")

folder=$("$venv/bin/python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' \
  2>/dev/null) || refuse "$venv has no torch"
shopt -s nullglob
libraries=("$folder"/lib/*.so "$folder"/_C*.so)
wanted=$(for file in "${libraries[@]}"; do nm -D --undefined-only "$file"; done |
  sed -nE 's/^ *U (p?nccl[A-Za-z0-9]+)(@.*)?$/\1/p' | sort -u)
[[ -n $wanted ]] || refuse "this PyTorch does not link to NCCL: it is no CUDA build, or contains its own"
missing=$(comm -23 <(printf '%s\n' "$wanted") \
  <(nm -D --defined-only "$library" | sed -nE 's/^.* [TW] (p?nccl[A-Za-z0-9]+)$/\1/p' | sort -u))
echo "PyTorch looks for $(wc -l <<<"$wanted") symbols of NCCL's"
if [[ -n $missing ]]; then
  echo "which $library lacks: ${missing//$'\n'/ }" >&2
  exit 1
fi

LD_PRELOAD=$library "$venv/bin/python" -W ignore - <<'PYTHON'
import ctypes
import os
import sys

import torch
import torch.distributed

# What the process knows by this name is what PyTorch's libraries were bound to.
bound = ctypes.CDLL(None)
try:
    bound.hzGetVersion.restype = ctypes.c_char_p
except AttributeError:
    sys.exit("the library was not preloaded: its symbols are not the process's")
number = ctypes.c_int()
if bound.ncclGetVersion(ctypes.byref(number)) != 0:
    sys.exit("ncclGetVersion failed")
with open("/proc/self/maps") as maps:
    loaded = sorted({line.split()[-1] for line in maps
                     if os.path.basename(line.split()[-1]).startswith("libnccl.so")})
print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, GPUs {torch.cuda.device_count()}, built for NCCL "
      f"{'.'.join(map(str, torch.cuda.nccl.version()))}, gets {number.value} of Harmonaize "
      f"{bound.hzGetVersion().decode()}")
if torch.version.cuda is None or not torch.distributed.is_nccl_available():
    sys.exit("this PyTorch is built without CUDA or without NCCL")
if loaded:
    sys.exit(f"stock NCCL is loaded as well: {loaded}")
PYTHON
echo "import torch works under the preload"
