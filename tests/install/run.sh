#!/usr/bin/env bash
# Installs a build folder into a temporary prefix, moves that, and builds a program against it with
# find_package and with pkg-config.
#
#     tests/install/run.sh BUILD-FOLDER
set -euo pipefail

build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH LD_PRELOAD

cmake --install "$build" --prefix "$work/installed" >"$work/install.log"
# An installation must not depend on where it was put.
mv "$work/installed" "$work/moved"
prefix=$work/moved

library_folder=$(dirname "$(find "$prefix" -name libnccl.so.2)")
for file in bin/harmonaize bin/harmonaized include/nccl.h include/harmonaize.h \
  lib/systemd/system/harmonaized.service lib/sysusers.d/harmonaize.conf lib/tmpfiles.d/harmonaize.conf \
  share/harmonaize/move-connections.conf share/man/man1/harmonaize.1 share/man/man1/harmonaize-run.1 \
  share/man/man8/harmonaized.8 share/bash-completion/completions/harmonaize; do
  [[ -e $prefix/$file ]] || { echo "not installed: $file"; exit 1; }
done
# By zsh's folder below the prefix with which the build was configured.
compgen -G "$prefix/share/zsh/*/_harmonaize" >/dev/null || { echo "no completion for zsh"; exit 1; }
[[ -e $library_folder/libharmonaize-preload.so ]] || { echo "no preload library"; exit 1; }
for kind in net tuner profiler env; do
  [[ -e $library_folder/nccl-plugins/libnccl-$kind-harmonaize.so ]] || { echo "no $kind plugin"; exit 1; }
done
# Jobs of stock NCCL have the plugins' folder in LD_LIBRARY_PATH.
[[ ! -e $library_folder/nccl-plugins/libnccl.so.2 ]] || { echo "the plugins' folder has a libnccl.so.2"; exit 1; }

cmake -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_BUILD_TYPE=Release >"$work/consumer.log" || { cat "$work/consumer.log"; exit 1; }
cmake --build "$work/consumer" >"$work/consumer.log" || { cat "$work/consumer.log"; exit 1; }
"$work/consumer/consumer"
echo "find_package: works"

export PKG_CONFIG_PATH=$library_folder/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs harmonaize)"
"${CC:-cc}" "$here/consumer.c" -o "$work/by-pkg-config" "${flags[@]}"
LD_LIBRARY_PATH=$library_folder "$work/by-pkg-config"
echo "pkg-config: works"

# The installed launcher finds its library: the fault, if any, is another one than that.
# shellcheck disable=SC2016  # the rank expands it
"$prefix/bin/harmonaize" run --daemon=none -- sh -c 'test -e "${LD_PRELOAD%%:*}"'
echo "harmonaize run: finds the preload library"

# The shell's completion, as bash reads it, asks the program that it is called for.
# shellcheck disable=SC2016  # the other shell expands it
reply=$(bash -c 'source "$1/share/bash-completion/completions/harmonaize"
  COMP_WORDS=(harmonaize stat) COMP_CWORD=1
  _harmonaize "$1/bin/harmonaize" && echo "${COMPREPLY[@]}"' bash "$prefix")
[[ $reply == status ]] || { echo "completion in bash: '$reply'"; exit 1; }
echo "bash: completes"
