#!/usr/bin/env bash
# Runs every native fuzz target of the repository for the given time, one after another.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
ran=0
while IFS=: read -r file name; do
  echo "fuzz $name in ./$(dirname "$file") for $time"
  go test -run '^$' -fuzz "^${name}\$" -fuzztime "$time" -parallel 2 "./$(dirname "$file")"
  ran=$((ran + 1))
done < <(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's#^\./([^:]+):[0-9]+:func (.*)$#\1:\2#' | sort)
echo "$ran fuzz targets ran for $time each"
[ "$ran" -gt 0 ]
