# Drawbridge. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
GO ?= go
PACKAGES := ./...
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZRUNS ?= 5000
SOAK ?= 30m
SEED ?= 1
KILLS ?= 1000

# Tests make Unix sockets below TMPDIR, and the path of one has at most 107 characters.
ifneq ($(shell [ $$(printf %s "$${TMPDIR:-}" | wc -c) -gt 20 ] && echo long),)
export TMPDIR := /tmp
endif

.PHONY: help build demo check test lint fmt vet staticcheck vuln race seeds tables fuzz scripts conformance agents clients soak bench fuzz-long check-all clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

build: ## build bin/drawbridge and bin/drawbridge-relay
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/drawbridge ./cmd/drawbridge-relay

demo: build ## run the demo
	bin/drawbridge demo

check: lint vuln test ## everything that CI runs
	@scripts/conformance.sh --if-possible
	@scripts/agents.sh --if-possible --sample
	@scripts/clients.sh --if-possible --sample

lint: fmt vet staticcheck ## gofmt, go vet, staticcheck

fmt:
	@out=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi

vet:
	$(GO) vet $(PACKAGES)
	$(GO) vet -tags failpoint ./internal/failpoint ./proof/failport ./cmd/...
	$(GO) vet -tags conformance ./proof/mcp ./cmd/drawbridge
	GOOS=darwin $(GO) vet $(PACKAGES)

staticcheck:
	$(GO) tool staticcheck $(PACKAGES)
	$(GO) tool staticcheck -tags failpoint ./internal/failpoint ./proof/failport
	$(GO) tool staticcheck -tags conformance ./proof/mcp

vuln: ## known vulnerabilities, when their data can be had
	@scripts/vuln.sh

test: race seeds tables fuzz ## tests under the race detector in random order (guards and scripts among them), then short fuzzing

# Under the race detector every process would sleep a second at its end, also each process that a script starts. lint runs vet.
race: export GORACE := atexit_sleep_ms=0
race:
	@eval "$$(scripts/postgres.sh)"; race=$$(scripts/race.sh); \
	echo $(GO) test $$race -vet=off -shuffle=on -timeout=30m $(PACKAGES); \
	$(GO) test $$race -vet=off -shuffle=on -timeout=30m $(PACKAGES)

seeds: ## ten thousand plays of the simulation, without the race detector
	$(GO) test -vet=off -count=1 ./proof/sim

tables: ## all rows, kills and sizes of tests that take a sample under the race detector
	$(GO) test -vet=off -count=1 -timeout=30m ./relay/agents/acp ./relay/agents/cli ./relay/agents/permits ./relay/agents/turns ./relay/agents/workspace ./relay/hub ./relay/link
	@eval "$$(scripts/postgres.sh)"; $(GO) test -vet=off -count=1 -timeout=30m -run TestLostCommits ./proof/measure

scripts: ## only the scripts against the built binaries
	$(GO) test -count=1 ./cmd/...

conformance: ## the official MCP conformance suite and the official TypeScript clients against the MCP door; needs npm
	@scripts/conformance.sh

agents: ## real CLI agents from npm (codex, claude, gemini, opencode, qwen) against the bridge, their models scripts on loopback; needs npm
	@scripts/agents.sh

clients: ## libraries and coding agents from npm against the OpenAI-compatible door, a script behind it; needs npm
	@scripts/clients.sh

soak: ## the proofs on the real programs for SOAK (30m) from SEED (1): kills, pauses, cuts, faults of the store; then KILLS (1000) of each kind with agents at a relay
	@eval "$$(scripts/postgres.sh)"; $(GO) test -count=1 -v -timeout=0 ./proof/soak -skip TestHostedKills -soak.time=$(SOAK) -soak.seed=$(SEED) | grep -vE '^(=== |--- PASS|    --- PASS)'
	@$(GO) test -count=1 -v -timeout=0 ./proof/soak -run TestHostedKills -soak.rounds=$(KILLS) -soak.seed=$(SEED) -soak.workers=9 | grep -vE '^(=== |--- PASS|    --- PASS)'

fuzz: ## every fuzz target with FUZZRUNS (5000) inputs
	@scripts/fuzz.sh $(FUZZRUNS)

fuzz-long: ## every fuzz target with two million inputs, some ten minutes each
	@scripts/fuzz.sh 2000000

bench: ## benchmarks, each comparing in one run; results in docs/bench
	@eval "$$(scripts/postgres.sh)"; $(GO) test -run '^$$' -bench . -benchmem ./parser ./store ./policy ./webhooks ./bridge/engine ./mail ./mcpserver ./relay/wire ./relay/hub ./relay/runner ./relay/runner/keeper ./relay/agents/host ./relay/agents/turns ./proof/measure

check-all: check agents clients ## check, all agents and clients, and 100 rounds of each kill loop, at most 80 minutes for the loops
	@eval "$$(scripts/postgres.sh)"; timeout -k 10 4800 $(GO) test -count=1 -v -timeout=0 ./proof/soak -run 'TestRandomKills|TestReplicas|TestRestore|TestTeam|TestHostedKills' -soak.rounds=100 | grep -vE '^(=== |--- PASS|    --- PASS)'

clean: ## remove what was built
	rm -rf bin
