#!/usr/bin/env bash
# Lets programs that nobody here wrote call the OpenAI-compatible door: the official openai client, the AI SDK, LangChain, OpenCode,
# Continue's command line and Codex. A script stands behind the door, or the stand-in of the agent service. The vendor's own client of that service
# calls the stand-in, too. No client has an account or a key, and none reaches further than this machine.
# They are installed from the npm registry as the lock files in proof/clients/npm and proof/agents/npm pin them, without their install
# scripts, into .cache/clients.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.cache/clients
clients=(openai aisdk langchain continue opencode codex cursorsdk)
if [ $# -gt 0 ]; then
  echo "usage: scripts/clients.sh" >&2
  exit 2
fi
what='Clients of the OpenAI-compatible door'
. scripts/npm.sh

# node_program names the Node to use: the pinned one, or that of the machine where it is new enough.
node_program() {
  local pinned
  for pinned in "$cache"/openai/node_modules/node-*/bin/node; do
    [ -x "$pinned" ] && echo "$pinned" && return
  done
  node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 22 ? 1 : 0)' 2>/dev/null && command -v node
}

for client in "${clients[@]}"; do
  pins=proof/clients/npm
  [ -d $pins/$client ] || pins=proof/agents/npm
  install $pins "$client"
done
node=$(node_program) || not_run "Node 22 or later is needed on this platform"
DRAWBRIDGE_NODE=$node DRAWBRIDGE_CLIENTS=$cache DRAWBRIDGE_CLIENT_NAMES="${clients[*]}" ${GO:-go} test -tags deep -count=1 -timeout=15m -v ./proof/clients | grep -vE '^(=== |--- PASS|    --- PASS)'
