#!/usr/bin/env bash
# Runs deep shards one after another: scripts/shard.sh deep-kills deep-fuzz. Each writes its output to .cache/deep/SHARD.log and ends
# with one line of counts and seconds here, and the names of what failed. A red shard does not stop the next; the exit code is 1 then.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p .cache/deep
red=0
for shard in "$@"; do
  log=.cache/deep/$shard.log
  start=$SECONDS
  ${MAKE:-make} --keep-going --no-print-directory "$shard" >"$log" 2>&1
  code=$?
  echo "$shard: $(grep -cE '^PASS [^ ]+\.[A-Z]' "$log") passed, $(grep -cE '^SKIP [^ ]+\.[A-Z]' "$log") skipped, $(grep -cE '^FAIL [^ ]+\.[A-Z]' "$log") failed, exit $code, $((SECONDS - start)) s; $log"
  if [ $code != 0 ]; then
    red=1
    grep -hE '^(FAIL|--- FAIL|panic:|make.*Error)' "$log" | sort -u | head -n 30 | sed 's/^/  /'
  fi
done
exit $red
