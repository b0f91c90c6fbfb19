#!/usr/bin/env bash
# install_test.sh BUILD_DIR SOURCE_DIR: installs a finished build, then builds
# and runs a project that finds it by find_package.
set -euo pipefail

build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# cached NAME: the value of a variable of the build.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

cmake --install "$build" --prefix "$work/prefix" >"$work/log" ||
  { cat "$work/log"; exit 1; }
# The flags too: a library built with a sanitizer needs it at the link.
cmake -S "$source/examples/cmake_project" -B "$work/build" \
  -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$(cached CMAKE_CXX_COMPILER)" \
  -DCMAKE_CXX_FLAGS="$(cached CMAKE_CXX_FLAGS)"
cmake --build "$work/build"
"$work/build/example"
