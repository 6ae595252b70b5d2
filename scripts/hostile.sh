#!/usr/bin/env bash
# A hostile user beside an honest job of another, for long (docs/security.md, "A hostile run").
#
#     scripts/hostile.sh [SECONDS]       so many seconds (default: 600), in release
#     scripts/hostile.sh --seed N        with the draws of an earlier run, whose first line says its seed
#     scripts/hostile.sh --only ATTACK   with this attack alone; may be repeated with --seed
#     scripts/hostile.sh --attackers N   so many attackers at a time (default: 4)
#     scripts/hostile.sh --hosts 2       with two daemons that stand for two hosts: the job spans them, and
#                                        the attackers work together at both; no rate is judged
#     scripts/hostile.sh --preset asan   with address and undefined behaviour sanitizers: slower, and no
#                                        rate is judged
#     scripts/hostile.sh --json FILE     where what was measured is written (default:
#                                        build/PRESET/hostile.json)
#     scripts/hostile.sh --list          the attacks
#
# Attackers and burners take turns of 15 s: burners are as many processes that use as much of the
# processors' time as the attackers before did, and do not talk to the daemon. A line tells of each turn,
# and of what the daemon holds between them.
#
# Fails when a result of the honest job is wrong, an attack succeeds, the daemon ends, stands still or
# keeps anything of the attackers, its memory grows, daemons lose their link, or the honest job has less
# than half the rate that it has beside burners. Needs root, for the users and the process number space. Builds the test first.
#
# Status 0: all is well. 1: something is not. 2: it could not be tried.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
refuse() {
  echo "$0: $1; see $0 --help" >&2
  exit 2
}

preset=release
seconds=600
json=
hosts=1
options=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --list) options+=(--list) ;;
    --seed | --only | --attackers | --hosts)
      [[ $1 == --hosts ]] && hosts=${2:-}
      options+=("$1" "${2:?$1 needs a value}")
      shift
      ;;
    --preset)
      preset=${2:?--preset needs a name}
      shift
      ;;
    --json)
      json=${2:?--json needs a file}
      shift
      ;;
    [1-9]*)
      [[ $1 =~ ^[0-9]+$ ]] || refuse "'$1' is no number of seconds"
      seconds=$1
      ;;
    *) refuse "unknown option '$1'" ;;
  esac
  shift
done
((EUID == 0)) || refuse "only root can be several users"

export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
log=build/logs/hostile.log
mkdir -p build/logs
if ! { cmake --preset "$preset" && nice cmake --build --preset "$preset" --target hostile_test; } >"$log" 2>&1; then
  tail -n 30 "$log" >&2
  exit 2
fi
[[ $preset == release && $hosts == 1 ]] && options+=(--rate)
status=0
"build/$preset/tests/hostile_test" --seconds "$seconds" --phase 15 \
  --json "${json:-build/$preset/hostile.json}" "${options[@]}" || status=1
exit "$status"
