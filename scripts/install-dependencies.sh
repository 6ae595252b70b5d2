#!/usr/bin/env bash
# Installs what Harmonaize is built from, on Debian 12. Does nothing, quickly, when all is there.
#
#     scripts/install-dependencies.sh [--with-peers] [--with-plots] [--with-lint] [--with-fuzz]
#                                    [--with-browser] [--with-torch] [--with-containers]
#
#     --with-peers   also what perf/compare measures against: Open MPI, MPICH and Gloo
#     --with-plots   also what perf/compare/plot draws with: gnuplot
#     --with-lint    also clang-format and clang-tidy
#     --with-fuzz    also clang with libFuzzer, for scripts/fuzz.sh
#     --with-browser also Chromium, in which tests look at the status page
#     --with-containers  also bubblewrap and podman, in whose containers tests run ranks
#     --with-torch   also Debian's PyTorch (0.8 GB), and what its plugin, tests and examples need
set -euo pipefail

packages=(
  ccache cmake g++ git iproute2 mold ninja-build pkg-config python3
  libbenchmark-dev libboost-dev libcli11-dev libfmt-dev libgtest-dev libhwloc-dev libhwy-dev
  libnats-dev libnl-3-dev libnl-route-3-dev libseccomp-dev libspdlog-dev libsqlite3-dev libssl-dev
  libsystemd-dev libtomlplusplus-dev libucx-dev libxxhash-dev nlohmann-json3-dev openssl prometheus-cpp-dev systemd
  zlib1g-dev
)

for option in "$@"; do
  case $option in
    --with-peers) packages+=(openmpi-bin libopenmpi-dev mpich libmpich-dev libgloo-dev) ;;
    --with-plots) packages+=(gnuplot-nox) ;;
    --with-lint) packages+=(clang-format clang-tidy) ;;
    --with-fuzz) packages+=(clang libclang-rt-14-dev) ;;
    --with-browser) packages+=(chromium fonts-dejavu-core) ;;
    --with-containers) packages+=(bubblewrap podman runc) ;;
    --with-torch)
      packages+=(libtorch-dev pybind11-dev python3-dev python3-matplotlib python3-pytest python3-setuptools
        python3-sklearn python3-torch python3-venv)
      ;;
    *)
      echo "$0: unknown option '$option'; see the top of this script" >&2
      exit 2
      ;;
  esac
done

if ! command -v apt-get >/dev/null; then
  echo "$0: this machine has no apt; install these packages' equivalents: ${packages[*]}" >&2
  exit 1
fi

installed() { [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "dependencies: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "$0: run this as root, or install sudo; missing: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "dependencies: installing ${missing[*]}"
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
  apt-get install --yes --no-install-recommends --quiet "${missing[@]}")
# Package lists may be missing or old: only then is the time for an update well spent.
if ! "${install[@]}"; then
  "${as_root[@]}" apt-get update --quiet
  "${install[@]}"
fi
