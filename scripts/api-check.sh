#!/usr/bin/env bash
# The HTTP interface against its own OpenAPI document, by schemathesis (docs/http.md, "Checks").
#
#     scripts/api-check.sh [--preset NAME] [--examples N] [--seed N]
#
# --preset NAME   the build that is asked (default: release); harmonaized and libnccl.so.2 are built first
# --examples N    so many cases for each operation (default: 60)
# --seed N        with the draws of an earlier run, which says its seed
#
# Starts a daemon, makes a job of two ranks run, and has schemathesis draw right and wrong requests for each
# operation, over TCP with a tenant's token, an operator's and an operator's that may only read. Fails on an
# answer of status 500 and above, a status, a type, a header or a body that the document does not have, and
# on a job that does not get on. Reports are left in build/api-check/reports.
#
# schemathesis comes from PyPI into build/api-check, a virtual environment.
#
# Status 0: all is well. 1: something is not. 77: schemathesis cannot be had here.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=4.32.5
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }

preset=release
options=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --preset)
      preset=${2:?--preset needs a name}
      shift
      ;;
    --examples | --seed)
      options+=("$1" "${2:?$1 needs a number}")
      shift
      ;;
    *)
      echo "$0: there is no option '$1'; see $0 --help" >&2
      exit 2
      ;;
  esac
  shift
done

environment=build/api-check
if [[ ! -x $environment/bin/schemathesis ]]; then
  mkdir -p build
  if ! python3 -m venv "$environment" >build/api-check.log 2>&1 ||
    ! timeout 300 "$environment/bin/pip" install --quiet "schemathesis==$VERSION" >>build/api-check.log 2>&1; then
    tail -n 3 build/api-check.log >&2
    echo "$0: schemathesis cannot be installed here; build/api-check.log says why" >&2
    exit 77
  fi
fi
cmake --preset "$preset" >build/api-check.log 2>&1 || {
  cat build/api-check.log >&2
  exit 1
}
cmake --build --preset "$preset" --target harmonaized harmonaize_nccl
exec python3 tests/integration/api_check.py "build/$preset/bin" "$environment" "${options[@]}"
