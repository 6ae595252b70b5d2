#!/usr/bin/env bash
# The whole test suite: checks of the tree, then build and tests for each preset.
#
#     scripts/test.sh                 release, no-cuda, asan and tsan
#     scripts/test.sh --quick         release only
#     scripts/test.sh --preset NAME   only this preset; may be repeated
#     scripts/test.sh --jobs N        compilers at a time (default: as many as cores), and half as
#                                     many tests again, since many of them wait
#     scripts/test.sh --no-install    leave the machine's packages alone
#
# release runs all tests in full. no-cuda runs those of which CUDA's headers make other programs; all
# others are the same as in release. asan and tsan go through parts of what is large
# (tests/support/sanitized.h), and tsan leaves out programs of one thread.
#
# Ends with the closing lines of ctest for each preset. Status 0 when everything passed.
set -euo pipefail
cd "$(dirname "$0")/.."

presets=()
jobs=$(nproc)
install=1
while (($# > 0)); do
  case $1 in
    --quick) presets=(release) ;;
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
((${#presets[@]} > 0)) || presets=(release no-cuda asan tsan)

# The presets' folders lie equally deep, so that what two of them compile alike is compiled once.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
logs=build/logs
mkdir -p "$logs"
failures=()
closing=()

say() { printf '[%2d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# check NAME COMMAND...: runs it quietly and shows what it wrote when it fails.
check() {
  local name=$1 log="$logs/${1//[: ]/-}.log"
  shift
  say "$name"
  if "$@" >"$log" 2>&1; then return 0; fi
  cat "$log"
  say "$name: FAILED"
  failures+=("$name")
  return 1
}

format_check() {
  find cli daemon examples include perf shim src tests -name '*.cc' -o -name '*.h' -o -name '*.c' |
    sort | xargs clang-format --dry-run --Werror --ferror-limit=1
}

# Kernels that spread addresses over more bits than the thread sanitizer expects leave it no room.
without_address_randomization() {
  if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
    setarch "$(uname -m)" --addr-no-randomize "$@"
  else
    "$@"
  fi
}

test_preset() {
  local preset=$1 log="$logs/$1-tests.log" runner=()
  [[ $preset == tsan ]] && runner=(without_address_randomization)
  say "$preset: tests"
  local status=0
  "${runner[@]}" ctest --preset "$preset" -j $((jobs + (jobs + 1) / 2)) >"$log" 2>&1 || status=$?
  if ((status != 0)); then
    grep -av -E '^ *Start +[0-9]+:|Passed +[0-9.]+ sec' "$log" || true
    failures+=("$preset: tests")
  fi
  closing+=("$preset:" "$(grep -a 'tests passed, .* tests failed out of' "$log" ||
    echo "ctest did not finish")")
}

if ((install)); then
  if ((${#presets[@]} > 1)); then
    scripts/install-dependencies.sh --with-lint
  else
    scripts/install-dependencies.sh
  fi
fi

if command -v clang-format >/dev/null; then
  check "format" format_check || true
else
  say "format: skipped, clang-format is not installed"
fi
check "includes" python3 scripts/check-includes.py || true

for preset in "${presets[@]}"; do
  if ! check "$preset: configure" cmake --preset "$preset" ||
    ! check "$preset: build" cmake --build --preset "$preset" -j "$jobs"; then
    closing+=("$preset:" "not built, not tested")
    continue
  fi
  if [[ $preset == release ]]; then
    check "headers stand alone" cmake --build --preset "$preset" -j "$jobs" --target check_headers ||
      true
  fi
  test_preset "$preset"
done

say "done"
if ((${#failures[@]} > 0)); then
  printf 'FAILED: %s\n' "${failures[@]}"
fi
((${#closing[@]} == 0)) || printf '%s\n' "${closing[@]}"
((${#failures[@]} == 0))
