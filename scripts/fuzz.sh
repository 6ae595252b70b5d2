#!/usr/bin/env bash
# Fuzz tests: what decodes foreign bytes is given bytes that nobody would send (docs/fuzzing.md).
#
#     scripts/fuzz.sh --list             the targets, each with what it reads
#     scripts/fuzz.sh TARGET SECONDS     gives one of them inputs for so long
#     scripts/fuzz.sh --all SECONDS      each of them for so long, one after the other
#     scripts/fuzz.sh --repeat FILE      gives the target that found FILE this input once more
#
# Builds the target first (preset fuzz), which takes some minutes the first time. What leads to new
# code is kept in build/fuzz/corpus/TARGET and is where the next run begins. A finding is written to
# build/fuzz/findings/TARGET; the last lines tell where, and how to repeat it. Targets run one at a
# time, at the lowest priority.
#
# Status 0: nothing was found. 1: something was. 2: it could not be tried.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
refuse() {
  echo "$0: $1; see $0 --help" >&2
  exit 2
}

programs=build/fuzz/fuzzers
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

targets() { find tests/fuzz -name '*_fuzzer.cc' -printf '%f\n' | sed 's/_fuzzer\.cc$//' | sort; }

# The first sentence of a target's source, which says what it reads.
list() {
  local target
  for target in $(targets); do
    printf '%-16s %s\n' "$target" \
      "$(sed -n '/^\/\/ /{s/^\/\/ //;p};/^$/q' "tests/fuzz/${target}_fuzzer.cc" | tr '\n' ' ' | sed 's/[.:] .*//')"
  done
}

require_target() { targets | grep -qx -- "$1" || refuse "there is no target '$1'"; }

build() {
  command -v clang++ >/dev/null || refuse "clang is not installed: scripts/install-dependencies.sh --with-fuzz"
  local log=build/logs/fuzz.log
  mkdir -p build/logs
  if ! { cmake --preset fuzz && nice cmake --build --preset fuzz --target "$@"; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    exit 2
  fi
}

# run TARGET ARGUMENTS...: one run, with the target's limits, dictionary, corpus and seeds.
run() {
  local target=$1 arguments status=0 before
  shift
  mapfile -t arguments <"$programs/$target.arguments"
  before=$(mktemp)
  nice -n 19 "$programs/${target}_fuzzer" "$@" "${arguments[@]}" || status=$?
  if ((status != 0)); then
    echo
    echo "$target: FOUND something, see above. The input:"
    find "build/fuzz/findings/$target" -type f -newer "$before" -printf '    %p\n'
    echo "Once more: $0 --repeat FILE. When it is understood, keep it as tests/fuzz/seeds/$target/NAME."
  fi
  rm -f "$before"
  return $((status != 0))
}

case ${1:-} in
  -h | --help) usage ;;
  --list) list ;;
  --all)
    [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || refuse "--all needs a number of seconds"
    build fuzzers
    found=()
    for target in $(targets); do
      echo "=== $target"
      run "$target" -max_total_time="$2" -verbosity=0 -print_final_stats=1 || found+=("$target")
    done
    ((${#found[@]} == 0)) || echo "FOUND by: ${found[*]}"
    ((${#found[@]} == 0))
    ;;
  --repeat)
    [[ -f ${2:-} ]] || refuse "--repeat needs the file of a finding"
    target=$(basename "$(dirname "$2")")
    require_target "$target"
    build "${target}_fuzzer" make_seeds
    "$programs/${target}_fuzzer" "$2" && echo "$target: nothing is found with $2" || exit 1
    ;;
  '' | -*) refuse "an option, or a target and a number of seconds, is needed" ;;
  *)
    require_target "$1"
    [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || refuse "a number of seconds is needed"
    build "${1}_fuzzer" make_seeds
    run "$1" -max_total_time="$2" -print_final_stats=1
    ;;
esac
