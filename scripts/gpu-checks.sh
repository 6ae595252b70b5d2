#!/usr/bin/env bash
# Checks what only a machine with a GPU can show, and writes the results into docs/gpu-checks.md.
#
#     scripts/gpu-checks.sh [--dry-run] [VENV]
#
#     VENV       a virtual environment with a CUDA build of PyTorch (default: build/torch-venv; made with
#                pip install torch where it is not there)
#     --dry-run  names the checks and runs none
#
# Needs one GPU, harmonaized, harmonaize, the preload library and NCCL's plugins in build/release, and less
# than twenty minutes, of which a check may take one, or four where it starts ranks of its own. Each check
# is a process under the preload with a daemon of its own (tests/gpu/gpu_checks.py), or two processes with
# stock NCCL and one of our plugins (tests/gpu/plugin_checks.py).
#
# Status 0: all claims hold. 1: some do not. 2: nothing could be tried; the document is unchanged.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
refuse() {
  echo "$0: $1; see $0 --help" >&2
  exit 2
}

# name | environment | claim. The environment "none" is without a daemon; "plugin" is stock NCCL without the
# preload, with daemons that the check starts.
checks=(
  "import|import|A CUDA build of PyTorch is imported under the preload"
  "carried|HARMONAIZE_CUDA=auto|Stock NCCL carries a GPU's communicator, and the daemon sees its calls"
  "split|HARMONAIZE_CUDA=auto|A group that PyTorch makes from another is carried too"
  "graph|HARMONAIZE_CUDA=auto|An all-reduce is captured in a CUDA graph and replayed"
  "both|HARMONAIZE_CUDA=auto|One process has a host communicator and a GPU's"
  "fallback|none HARMONAIZE_FALLBACK=nccl|Without a daemon every call goes to stock NCCL"
  "refused|HARMONAIZE_CUDA=off|A GPU pointer on a host communicator is refused with a sentence"
  "pinned|HARMONAIZE_CUDA=off|Pinned host memory is carried like any other"
  "net|plugin|Stock NCCL's messages go over the net plugin, and results are right"
  "tuner|plugin|Stock NCCL takes the tuner plugin, and says what is chosen"
  "profiler|plugin|The daemon shows the collectives that the profiler plugin tells of"
  "cost|plugin|What the profiler plugin costs a collective (told, and judged by nobody)"
  "env|plugin|Stock NCCL obeys the provider's settings by the env plugin"
)

dry=false
venv=build/torch-venv
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --dry-run) dry=true ;;
    -*) refuse "unknown option '$1'" ;;
    *) venv=$1 ;;
  esac
  shift
done

if $dry; then
  for check in "${checks[@]}"; do
    IFS='|' read -r name _ claim <<<"$check"
    printf '%-9s %s\n' "$name" "$claim"
  done
  exit 0
fi

program=$PWD/build/release/bin/harmonaize
libraries=$PWD/build/release/lib
library=$libraries/libharmonaize-preload.so
for file in "$program" "$library" "$libraries"/nccl-plugins/libnccl-{net,tuner,profiler,env}-harmonaize.so; do
  [[ -e $file ]] || refuse "there is no $file: build it first"
done
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1) ||
  refuse "there is no GPU, or no nvidia-smi"
[[ -n $gpu ]] || refuse "there is no GPU"
if [[ ! -x $venv/bin/python ]]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet torch numpy || refuse "PyTorch could not be installed into $venv"
fi

# Prints what a check says, and returns its status.
run_check() {
  local name=$1 settings=$2
  case $settings in
    import) timeout 60 scripts/check-torch-import.sh "$venv" 2>&1 ;;
    plugin)
      # Twice what its ranks may take, and the start of Python.
      env HARMONAIZE_PROGRAM="$program" timeout 240 "$venv/bin/python" tests/gpu/plugin_checks.py "$name" 2>&1
      ;;
    none*)
      env HARMONAIZE_SOCKET=/nonexistent "${settings#none }" LD_PRELOAD="$library" \
        timeout 60 "$venv/bin/python" tests/gpu/gpu_checks.py "$name" 2>&1
      ;;
    *)
      env HARMONAIZE_PROGRAM="$program" "$settings" \
        "$program" run --daemon=private --timeout 60 -n 1 -- "$venv/bin/python" tests/gpu/gpu_checks.py "$name" 2>&1
      ;;
  esac
}

rows=
failures=0
date=$(date +%Y-%m-%d)
for check in "${checks[@]}"; do
  IFS='|' read -r name settings claim <<<"$check"
  result=holds
  said=$(run_check "$name" "$settings") || {
    result=FAILS
    failures=$((failures + 1))
  }
  said=$(tail -n 1 <<<"$said" | tr '|' '/')
  printf '%-9s %s: %s\n' "$name" "$result" "$said"
  rows+="| $claim | \`$name\` | $result: $said | $date, $gpu |"$'\n'
done

# The rows between the two marks of the document.
HARMONAIZE_ROWS=$rows python3 - <<'PYTHON'
import os
import pathlib

path = pathlib.Path("docs/gpu-checks.md")
text = path.read_text().replace("**No check has been run on a GPU yet.** ", "")
head, rest = text.split("|---|---|---|---|\n", 1)
tail = rest[rest.index("\n\n"):] if "\n\n" in rest else "\n"
path.write_text(head + "|---|---|---|---|\n" + os.environ["HARMONAIZE_ROWS"].rstrip("\n") + tail)
PYTHON
((failures == 0))
