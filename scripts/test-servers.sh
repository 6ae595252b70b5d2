#!/usr/bin/env bash
# Unpacks the servers that tests run, from Debian's packages, into build/servers: nats-server, Prometheus
# and promtool. They are not installed, because Debian's packages would start them as services of this
# machine. Tests find them there, and those that do not find them are skipped. Does nothing, quickly,
# where all are there.
#
#     scripts/test-servers.sh
set -euo pipefail
cd "$(dirname "$0")/.."

servers=build/servers
export PATH="$PATH:/usr/sbin"

# unpack PACKAGE PROGRAM...: unpacks the package unless all of its programs are there.
unpack() {
  local package=$1 program missing=0 folder
  shift
  for program in "$@"; do
    command -v "$program" >/dev/null || [[ -x $servers/bin/$program ]] || missing=1
  done
  ((missing)) || return 0
  echo "servers: unpacking $package"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  (cd "$folder" && apt-get download --quiet "$package" && dpkg-deb --extract ./*.deb .)
  mkdir -p "$servers/bin"
  for program in "$@"; do
    cp "$folder"/usr/*bin/"$program" "$servers/bin/"
  done
  rm -rf "$folder"
  trap - EXIT
}

if ! command -v apt-get >/dev/null; then
  echo "$0: this machine has no apt; put nats-server, prometheus and promtool on the PATH" >&2
  exit 1
fi
unpack nats-server nats-server
unpack prometheus prometheus promtool
echo "servers: nats-server, prometheus and promtool are there"
