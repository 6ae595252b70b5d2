#!/usr/bin/env bash
# Makes docs/images/status-page.webp and status-page-dark.webp: the status page of a laboratory of four
# hosts on which a job of four ranks with two agents runs beside a smaller one. Needs root, Chromium
# and a release build with the benchmarks.
#
#     scripts/screenshot.sh [FOLDER]      FOLDER: where the pictures go; docs/images unless it is given
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${1:-docs/images}")
programs=build/release/bin
for program in harmonaize harmonaized fabric timeline_perf; do
  [[ -x $programs/$program ]] || {
    echo "$0: there is no $programs/$program; build it: ninja -C build/release $program" >&2
    exit 1
  }
done
mkdir -p "$target"
exec python3 tests/integration/page_pictures.py "$programs" "$target"
