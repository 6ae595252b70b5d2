#!/usr/bin/env bash
# Installs PyTorch for the plugin's tests, and the plugin into it. Does nothing, quickly, when all is there.
#
#     scripts/install-torch.sh [--version VERSION] [--without-plugin]    PyPI's, into build/torch-venv
#     scripts/install-torch.sh --debian [--without-plugin]               Debian's 1.13, by apt, and
#                                                                        build/torch-debian-venv that sees it
#
# PyPI's PyTorch takes some 6 GB. With --version 2.6.0 the folder is build/torch-2.6.0-venv. The plugin is
# built against the Harmonaize of HARMONAIZE_HOME, by default build/release.
set -euo pipefail
cd "$(dirname "$0")/.."

version=
debian=0
plugin=1
while (($# > 0)); do
  case $1 in
    --version)
      version=$2
      shift
      ;;
    --debian) debian=1 ;;
    --without-plugin) plugin=0 ;;
    *)
      echo "$0: unknown option '$1'; see the top of this script" >&2
      exit 2
      ;;
  esac
  shift
done

tools=(setuptools wheel ninja packaging pytest expecttest)

if ((debian)); then
  venv=build/torch-debian-venv
  scripts/install-dependencies.sh --with-torch
  [[ -x $venv/bin/python ]] || /usr/bin/python3 -m venv --system-site-packages "$venv"
else
  venv=build/torch${version:+-$version}-venv
  [[ -x $venv/bin/python ]] || python3 -m venv "$venv"
  if ! "$venv/bin/python" -c 'import torch, matplotlib, sklearn, pytest, wheel' 2>/dev/null; then
    "$venv/bin/pip" install --quiet --no-cache-dir "torch${version:+==$version}" matplotlib scikit-learn "${tools[@]}"
  fi
fi

if ((plugin)); then
  export HARMONAIZE_HOME=${HARMONAIZE_HOME:-$PWD/build/release}
  # A build folder has no include folder of its own.
  [[ -e $HARMONAIZE_HOME/include/nccl.h ]] || export HARMONAIZE_INCLUDE=$PWD/include
  "$venv/bin/pip" install --quiet --no-build-isolation --no-deps ./plugins/torch
fi
"$venv/bin/python" -c 'import torch; print("PyTorch", torch.__version__)'
echo "Tests: $venv/bin/python -m pytest tests/torch"
