#!/usr/bin/env bash
# install_test.sh BUILD_DIR SOURCE_DIR: installs a finished build; runs its
# program where nothing helps it to find libraries, compiles each header alone,
# then builds and runs a project that finds it by find_package.
set -euo pipefail

build=$1
source=$2
# Always the same, so that ccache knows what it has compiled before.
work=$build/install_test
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$work"' EXIT

# cached NAME: the value of a variable of the build.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
compiler=$(cached CMAKE_CXX_COMPILER)

cmake --install "$build" --prefix "$work/prefix" >"$work/log" ||
  { cat "$work/log"; exit 1; }
cmp "$source/LICENSE" "$work/prefix/share/doc/sluice/LICENSE"

env -i "$work/prefix/bin/sluice" --version
if [[ $(cached SLUICE_WITH_TORCH) == ON ]]; then
  env -i "$work/prefix/bin/sluice" train --engine threads --workers 2 --max-steps 2 \
    --model logistic --dataset synthetic:train=256,test=16 --out "$work/run"
fi

launcher=$(cached CCACHE_PROGRAM)
[[ $launcher != *NOTFOUND ]] || launcher=
export compile="$launcher $compiler -std=c++20 -O0 -I$work/prefix/include" work
alone() {
  local name=${1//\//_}
  echo "#include \"$1\"" >"$work/$name.cpp"
  $compile -c "$work/$name.cpp" -o "$work/$name.o" ||
    { echo "[install] $1 must compile on its own" >&2; exit 1; }
}
export -f alone
(cd "$work/prefix/include" && find sluice -name '*.h') |
  xargs -P 2 -I{} bash -c 'alone {}'

# The flags too: a library built with a sanitizer needs it at the link.
cmake -S "$source/examples/cmake_project" -B "$work/build" \
  -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_CXX_FLAGS="$(cached CMAKE_CXX_FLAGS)"
cmake --build "$work/build"
"$work/build/example"
