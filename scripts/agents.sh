#!/usr/bin/env bash
# Runs real CLI agents against the bridge: each reads its configuration as `drawbridge mcp-config` writes it, and Codex calls every tool,
# its model a script on loopback; OpenCode, Gemini, Qwen and the ACP adapters of Claude and Codex run at the relay, too. No agent has an
# account or a key, and none reaches further than this machine. The agents are installed from the npm registry as the lock files in proof/agents/npm pin them,
# without their install scripts, into .cache/agents. The official openai client checks the stand-in for chat models.
#   --if-possible  where npm or the registry cannot be had, that is said and is not a failure; a test that ran and failed is
#   --sample       Codex alone, the others not
set -euo pipefail
cd "$(dirname "$0")/.."
pins=proof/agents/npm cache=$PWD/.cache/agents
lenient= agents=(codex claude gemini opencode claude-acp codex-acp qwen)
for arg in "$@"; do
  case $arg in
    --if-possible) lenient=1 ;;
    --sample) agents=(codex) ;;
    *) echo "usage: scripts/agents.sh [--if-possible] [--sample]" >&2; exit 2 ;;
  esac
done

# not_run says why nothing was run, and ends.
not_run() {
  echo "CLI agents: NOT RUN: $1" >&2
  [ -n "$lenient" ] && exit 0
  exit 1
}

# install puts one agent into the cache, unless this very one is there.
install() {
  local name=$1 dir=$cache/$1 wanted out code=0
  wanted=$(cksum <"$pins/$name/package-lock.json")
  [ "$(cat "$dir/.complete" 2>/dev/null)" = "$wanted" ] && return
  command -v npm >/dev/null 2>&1 || not_run "npm is not installed"
  echo "CLI agents: installing $(grep -oE '"[^"]+": "[0-9][^"]*"' "$pins/$name/package.json" | tr -d '"' | tr -d ' ' | tr ':' '@') from npm (up to 400 MB on the disk)"
  rm -rf "$dir" && mkdir -p "$dir" && cp "$pins/$name"/package*.json "$dir"
  out=$(cd "$dir" && timeout -k 5 "${NPM_LIMIT:-300}" npm ci --ignore-scripts --prefer-offline --fetch-retries=1 --fetch-timeout=60000 2>&1) || code=$?
  # npm is deaf to TERM while it waits for an answer, and 137 is KILL.
  if [ $code = 124 ] || [ $code = 137 ]; then
    not_run "the npm registry did not send everything within ${NPM_LIMIT:-300} s"
  fi
  if [ $code != 0 ]; then
    # Only a registry that cannot be reached excuses; packages that are not what the lock says do not.
    if grep -qE 'ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|E50[234]' <<<"$out"; then
      not_run "the npm registry cannot be reached ($(grep -m 1 -E 'npm error' <<<"$out" | cut -c1-120))"
    fi
    echo "$out" >&2
    exit 1
  fi
  echo "$wanted" >"$dir/.complete"
}

for agent in "${agents[@]}" openai; do install "$agent"; done
node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' 2>/dev/null || not_run "Node 20 or later is needed"
DRAWBRIDGE_OPENAI=$cache/openai ${GO:-go} test -count=1 -timeout=2m -v -run TestOfficialClient ./proof/chatsim | grep -vE '^(=== )'
DRAWBRIDGE_AGENTS=$cache DRAWBRIDGE_AGENT_NAMES="${agents[*]}" ${GO:-go} test -count=1 -timeout=15m -v ./proof/agents | grep -vE '^(=== |--- PASS|    --- PASS)'
