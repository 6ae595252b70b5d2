#!/usr/bin/env bash
# From a bare Debian 12 to a verified all-reduce of four processes through a Harmonaize daemon.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step "1/3  What Harmonaize is built from"
scripts/install-dependencies.sh

step "2/3  Building into build/release"
mkdir -p build
cmake --preset release >build/quickstart.log 2>&1 || {
  cat build/quickstart.log
  exit 1
}
cmake --build --preset release \
  --target harmonaize harmonaized harmonaize_nccl harmonaize_preload all_reduce_perf

step "3/3  Four processes, one daemon: all-reduce from 8 bytes to 8 MiB, every result checked"
command=(build/release/bin/harmonaize run -n 4 --
  build/release/bin/all_reduce_perf -b 8 -e 8M -f 4 -c 1)
printf '$ %s\n\n' "${command[*]}"
status=0
"${command[@]}" || status=$?

echo
if ((status == 0)); then
  echo "Quickstart: PASSED. All results are right; the times above are this machine's."
  echo "Next: README.md, 'Your own program'."
else
  echo "Quickstart: FAILED with status $status. What went wrong stands above." >&2
fi
exit "$status"
