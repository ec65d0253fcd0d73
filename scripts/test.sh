#!/usr/bin/env bash
# Runs the fast tests of the given packages; `make check` and `make test` call it, so that they share Go's test cache.
# A failed test runs again, twice at most. The last lines name each test that failed first and passed then.
set -uo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
${GO:-go} tool gotestsum --format=pkgname --hide-summary=skipped --jsonfile="$dir/log" --packages="${*:-./...}" \
  --rerun-fails=2 --rerun-fails-max-failures=5 --rerun-fails-report="$dir/flaky" -- -vet=off -timeout=3m
code=$?
skipped=$(grep -c 'SKIPPED: no PostgreSQL server' "$dir/log" 2>/dev/null)
if [ "${skipped:-0}" -gt 0 ]; then
  echo "No PostgreSQL is on this machine: $skipped tests on it were skipped. Install the package postgresql to run them."
fi
if [ $code = 0 ] && [ -s "$dir/flaky" ]; then
  echo "FLAKY: these tests failed, and passed when they ran again. Find out why: the fault may be the product's."
  cat "$dir/flaky"
fi
exit $code
