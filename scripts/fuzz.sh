#!/usr/bin/env bash
# Runs every native fuzz target of the repository with the given number of inputs, one after another.
# The bound is a count and not a time: when a -fuzztime ends while a worker is starved of processor,
# Go before 1.27 reports its own deadline as a failure of the target (golang/go#75804).
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-10000}
if ! [[ $runs =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: scripts/fuzz.sh [INPUTS]: a number of inputs for each target, such as 10000" >&2
  exit 2
fi
ran=0
while IFS=: read -r file name; do
  echo "fuzz $name in ./$(dirname "$file") with $runs inputs"
  go test -vet=off -run '^$' -fuzz "^${name}\$" -fuzztime "${runs}x" -parallel 2 "./$(dirname "$file")"
  ran=$((ran + 1))
done < <(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's#^\./([^:]+):[0-9]+:func (.*)$#\1:\2#' | sort)
echo "$ran fuzz targets ran with $runs inputs each"
[ "$ran" -gt 0 ]
