#!/usr/bin/env bash
# The whole test suite: checks of the tree, then build and tests for each preset.
#
#     scripts/test.sh                 release, asan, tsan and no-cuda, as CI runs them
#     scripts/test.sh --quick         release only
#     scripts/test.sh --all           every test in every preset, fuzz tests for ten seconds each, long tests
#                                     of PyTorch, and each source and header compiled by itself
#     scripts/test.sh --preset NAME   only this preset; may be repeated
#     scripts/test.sh --jobs N        compilers at a time (default: as many as cores), and half as
#                                     many tests again (tsan: twice as many), since many of them wait
#     scripts/test.sh --no-install    leave the machine's packages alone
#
# release runs all tests in full. The other presets run those that find something there which release
# cannot find, one program for each subject (tests/rounds.cmake), and go through parts of what is large
# (tests/support/sanitized.h).
# asan has the fuzz tests too, and gives them their seeds (scripts/fuzz.sh makes inputs). Where clang is not
# installed, GCC builds asan and tsan, without fuzz tests.
# Tests of one preset after the other run beside the builds of the next ones, which have a lower priority.
#
# Ends with what each phase took of time and of processors, the ten slowest tests, and the closing lines of
# ctest for each preset. Status 0 when everything passed.
set -euo pipefail
cd "$(dirname "$0")/.."

presets=()
jobs=$(nproc)
install=1
all=0
while (($# > 0)); do
  case $1 in
    --quick) presets=(release) ;;
    --all) all=1 ;;
    --preset)
      presets+=("${2:?--preset needs a name}")
      shift
      ;;
    --jobs)
      jobs=${2:?--jobs needs a number}
      shift
      ;;
    --no-install) install=0 ;;
    -h | --help)
      sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *)
      echo "$0: unknown option '$1'; see $0 --help" >&2
      exit 2
      ;;
  esac
  shift
done
# Tests that are long look for it.
((all == 0)) || export HARMONAIZE_ALL_TESTS=1
if ((${#presets[@]} == 0)); then
  presets=(release asan tsan no-cuda)
  ((all == 0)) || presets+=(fuzz alone)
fi

# The presets' folders lie equally deep, so that what two of them compile alike is compiled once.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
logs=build/logs
mkdir -p "$logs"
failures=()
closing=()
phases=()

clock() { printf '%2d:%02d' $(($1 / 60)) $(($1 % 60)); }
say() { printf '[%s] %s\n' "$(clock $SECONDS)" "$*"; }

# timed FILE COMMAND...: runs it, and writes to FILE what it took: seconds, and seconds of processors.
timed() {
  local file=$1 status=0 TIMEFORMAT='%0R %0U %0S'
  shift
  { time "$@" 2>&3; } 3>&2 2>"$file" || status=$?
  return "$status"
}

# phase FILE NAME: what timed has written, as a line of the table.
phase() {
  local real user system
  read -r real user system <"$1"
  phases+=("$(clock "$real")  $(clock $((user + system)))  $2")
}

# check NAME COMMAND...: runs it quietly and shows what it wrote when it fails.
check() {
  local name=$1 log="$logs/${1//[: ]/-}.log" status=0
  shift
  say "$name"
  timed "$log.time" "$@" >"$log" 2>&1 || status=$?
  phase "$log.time" "$name"
  ((status != 0)) || return 0
  cat "$log"
  say "$name: FAILED"
  failures+=("$name")
  return 1
}

format_check() {
  find cli daemon examples include perf plugins shim src tests writer -name '*.cc' -o -name '*.h' -o -name '*.c' |
    sort | xargs -n 40 -P "$jobs" clang-format --dry-run --Werror --ferror-limit=1
}

# A folder whose preset has got another compiler since is begun anew.
configure() { cmake --preset "$1" || cmake --fresh --preset "$1"; }

# Whether a preset builds and runs a part of the tests only.
has_round() { ((all == 0)) && [[ -f build/$1/round.txt ]]; }

build() {
  local preset=$1 target=()
  has_round "$preset" && target=(--target round)
  nice -n "$niceness" cmake --build --preset "$preset" -j "$jobs" "${target[@]}"
}

# Kernels that spread addresses over more bits than the thread sanitizer expects leave it no room.
without_address_randomization() {
  if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
    setarch "$(uname -m)" --addr-no-randomize "$@"
  else
    "$@"
  fi
}

run_tests() {
  local preset=$1 runner=() selection=() at_once=$((jobs + (jobs + 1) / 2)) status=0
  # They wait for half of their time, and when they run nothing is left to build.
  [[ $preset == tsan* ]] && runner=(without_address_randomization) at_once=$((2 * jobs))
  has_round "$preset" && selection=(-R "$(<"build/$preset/round.txt")")
  if [[ $preset != fuzz ]]; then
    "${runner[@]}" ctest --preset "$preset" -j "$at_once" -LE '^fuzz$' "${selection[@]}" || status=$?
  fi
  # Fuzz tests compute all the time. After the others they hold up none of them, and as they never wait,
  # more of them at once would only slow each other down.
  if [[ $preset == asan || $preset == fuzz ]]; then
    nice -n 19 ctest --preset "$preset" -j "$jobs" -L '^fuzz$' || status=$?
  fi
  return "$status"
}

# Presets whose tests run or wait for those of the presets before them, and the processes of these tests.
testing=()
declare -A testing_process

# begin_tests PRESET: runs its tests beside what follows, once those of the presets before it have ended.
begin_tests() {
  local preset=$1 before=
  ((${#testing[@]} == 0)) || before=${testing_process[${testing[-1]}]}
  {
    # It is no child of this process, so that wait would not do.
    [[ -z $before ]] || tail --pid="$before" -f /dev/null
    say "$preset: tests"
    timed "$logs/$preset-tests.log.time" run_tests "$preset" >"$logs/$preset-tests.log" 2>&1
  } &
  testing_process[$preset]=$!
  testing+=("$preset")
}

# Waits for the tests of the first preset that has begun, and notes how they ended.
end_first_tests() {
  local preset=${testing[0]} status=0
  local log="$logs/$preset-tests.log"
  wait "${testing_process[$preset]}" || status=$?
  phase "$log.time" "$preset: tests"
  if ((status != 0)); then
    grep -av -E '^ *Start +[0-9]+:|Passed +[0-9.]+ sec' "$log" || true
    failures+=("$preset: tests")
  fi
  closing+=("$preset:" "$(grep -a 'tests passed, .* tests failed out of' "$log" ||
    echo "ctest did not finish")")
  tested+=("$preset")
  testing=("${testing[@]:1}")
}

# Notes how those tests ended that have ended by now.
end_past_tests() {
  while ((${#testing[@]} > 0)) && ! kill -0 "${testing_process[${testing[0]}]}" 2>/dev/null; do
    end_first_tests
  done
}

# "seconds  preset: test" of the slowest tests of all presets that were tested. sed reads to the end, where
# head would leave sort to die of a closed pipe.
slowest_tests() {
  local preset
  for preset in "${tested[@]}"; do
    sed -n -E "s/^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: +([^ ]+) \.*[ *]*[A-Za-z]+[ *]+([0-9.]+) sec.*/\2 $preset: \1/p" \
      "$logs/$preset-tests.log"
  done | sort -rn | sed -n 1,10p | while read -r seconds test; do printf '%7.1f s  %s\n' "$seconds" "$test"; done
}

if ((install)); then
  if ((${#presets[@]} > 1)); then
    check "packages" scripts/install-dependencies.sh --with-lint --with-fuzz --with-browser --with-torch \
      --with-containers
  else
    check "packages" scripts/install-dependencies.sh
  fi
  # Tests that need a server are skipped where there is none.
  check "servers" scripts/test-servers.sh || true
fi

if command -v clang-format >/dev/null; then
  check "format" format_check || true
else
  say "format: skipped, clang-format is not installed"
fi
check "includes" python3 scripts/check-includes.py || true
check "documents" python3 scripts/check-docs.py || true
check "environment" python3 scripts/check-environment.py || true

tested=()
for preset in "${presets[@]}"; do
  niceness=0
  end_past_tests
  ((${#testing[@]} == 0)) || niceness=19
  if ! command -v clang++ >/dev/null; then
    if [[ $preset == asan || $preset == tsan ]]; then
      say "$preset: by GCC and without fuzz tests, clang is not installed"
      preset+=-gcc
    elif [[ $preset == fuzz ]]; then
      say "fuzz: skipped, clang is not installed"
      continue
    fi
  fi
  if ! check "$preset: configure" configure "$preset" || ! check "$preset: build" build "$preset"; then
    closing+=("$preset:" "not built, not tested")
    continue
  fi
  if ((all == 1)) && [[ $preset == release ]]; then
    check "headers stand alone" cmake --build --preset "$preset" -j "$jobs" --target check_headers ||
      true
  fi
  # It shows that sources compile; what they do is the same as in debug.
  [[ $preset == alone ]] && continue
  end_past_tests
  begin_tests "$preset"
done
while ((${#testing[@]} > 0)); do end_first_tests; done

say "done"
printf '\nPhases: time, processors (tests run beside the next build):\n'
printf '  %s\n' "${phases[@]}"
if ((${#tested[@]} > 0)); then
  printf '\nSlowest tests:\n'
  slowest_tests
fi
echo
if ((${#failures[@]} > 0)); then
  printf 'FAILED: %s\n' "${failures[@]}"
fi
((${#closing[@]} == 0)) || printf '%s\n' "${closing[@]}"
((${#failures[@]} == 0))
