#!/usr/bin/env bash
# labs_test.sh net|slurm PROGRAM...: runs PROGRAM on 4 ranks in a lab of
# tools/netlab or tools/slurmlab. Exits with 77 where the machine cannot.
set -euo pipefail

SKIPPED=77
CANNOT_RUN_HERE=4
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/../tools" && pwd)

(($# > 1)) && [[ $1 == net || $1 == slurm ]] || {
  echo "usage: labs_test.sh net|slurm PROGRAM..." >&2
  exit 2
}
mode=$1
shift
program=("$@")
name=test-$$
lab=$tools/${mode}lab

fail() {
  echo "[labs_test] $*" >&2
  exit 1
}

# expect STATUS COMMAND...
expect() {
  local want=$1 got=0
  shift
  timeout -k 5 40 "$@" || got=$?
  ((got == want)) || fail "status must be $want, is $got: $*"
}

up() {
  local got=0
  timeout -k 5 40 "$lab" up --name "$name" "$@" || got=$?
  # The reason is on standard error already.
  ((got != CANNOT_RUN_HERE)) || exit $SKIPPED
  ((got == 0)) || fail "up must succeed, gave $got"
}

check_usage() {
  expect 2 "$lab" 2>/dev/null
  expect 2 "$lab" sideways
  expect 2 "$lab" up --name 'no/such name'
  expect 2 "$lab" up --colour red
  expect 2 "$lab" up --name
  expect 2 "$lab" run --name "$name" -n 0 -- true
  expect 2 "$lab" run --name "$name" --env 1=2 -- true
  expect 2 "$lab" run --name "$name"
  expect 0 "$lab" --help >/dev/null
}

# What `up` measures is judged nowhere here: speed is no test.
bring_up() {
  if [[ $mode == net ]]; then
    up --rate none --hosts 2
    expect 0 "$lab" down --name "$name"
    up --rate 100mbit --no-check
  else
    up
  fi
}

# Without --grace, one failed rank costs minutes.
run=("$lab" run --name "$name" -n 4)
[[ $mode == slurm ]] || run+=(--grace 1)

trap '"$lab" down --name "$name" >/dev/null 2>&1 || true' EXIT

check_usage
bring_up
expect 0 "$lab" status --name "$name"
expect 1 "$lab" up --name "$name"
expect 0 "${run[@]}" -- "${program[@]}"
expect 3 "${run[@]}" -- sh -c 'exit 3'
# shellcheck disable=SC2016
expect 0 "${run[@]}" --env 'WORDS=a b,c;d' -- sh -c '[ "$WORDS" = "a b,c;d" ]'
expect 0 "$lab" down --name "$name"
expect 0 "$lab" down --name "$name"
expect 1 "$lab" status --name "$name"
