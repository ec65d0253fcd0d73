#!/usr/bin/env bash
# Runs real CLI agents against the bridge: each reads its configuration as `drawbridge mcp-config` writes it, and Codex calls every tool,
# its model a script on loopback; OpenCode, Gemini, Qwen and the ACP adapters of Claude and Codex run at the relay, too. No agent has an
# account or a key, and none reaches further than this machine. The agents are installed from the npm registry as the lock files in proof/agents/npm pin them,
# without their install scripts, into .cache/agents. The official openai client checks the stand-in for chat models.
set -euo pipefail
cd "$(dirname "$0")/.."
pins=proof/agents/npm cache=$PWD/.cache/agents
agents=(codex claude gemini opencode claude-acp codex-acp qwen)
if [ $# -gt 0 ]; then
  echo "usage: scripts/agents.sh" >&2
  exit 2
fi

what='CLI agents'
. scripts/npm.sh

for agent in "${agents[@]}" openai; do install $pins "$agent"; done
node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' 2>/dev/null || not_run "Node 20 or later is needed"
DRAWBRIDGE_OPENAI=$cache/openai ${GO:-go} test -tags deep -count=1 -timeout=2m -v -run TestOfficialClient ./proof/chatsim | grep -vE '^(=== )'
DRAWBRIDGE_AGENTS=$cache DRAWBRIDGE_AGENT_NAMES="${agents[*]}" ${GO:-go} test -tags deep -count=1 -timeout=15m -v ./proof/agents | grep -vE '^(=== |--- PASS|    --- PASS)'
