# Drawbridge. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
GO ?= go
export GO
P ?= ./...
FUZZRUNS ?= 5000
SOAK ?= 5m
SEED ?= 1
KILLS ?= 20
OUT ?= dist
PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64

# A clone in another folder finds what was compiled before.
export GOFLAGS := $(GOFLAGS) -trimpath

# Tests make Unix sockets below TMPDIR, and the path of one has at most 107 characters.
ifneq ($(shell [ $$(printf %s "$${TMPDIR:-}" | wc -c) -gt 20 ] && echo long),)
export TMPDIR := /tmp
endif

# The packages of each deep shard. A guard fails when a file with the build tag deep lies in a package of none.
KILLPACKAGES := ./relay/... ./chatmodel ./mcpserver
SCRIPTPACKAGES := ./cmd/...
PROOFPACKAGES := ./proof/sim ./proof/measure ./store ./config
SHARDS := deep-race-1 deep-race-2 deep-kills deep-scripts deep-proofs deep-fuzz deep-outside browser

.PHONY: help build demo check fmt vet test deep $(SHARDS) staticcheck darwin vuln conformance agents clients bench release clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## build bin/drawbridge and bin/drawbridge-relay
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -o bin/ ./cmd/drawbridge ./cmd/drawbridge-relay

demo: build ## run the demo
	bin/drawbridge demo

check: fmt vet test ## what CI runs at each push: gofmt, go vet, build, the fast tests

fmt:
	@out=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi

vet:
	$(GO) vet -tags deep ./...
	$(GO) build ./...

test: ## the fast tests of all packages, or of P=./relay/hub; needs nothing installed
	@scripts/test.sh $(P)

deep: ## all deep shards, one after another, each about 30 minutes on 2 cores
	@scripts/shard.sh $(SHARDS)

DEEP = $(GO) tool gotestsum --format=testname --no-color --hide-summary=output -- -vet=off -timeout=60m
POSTGRES = eval "$$(scripts/postgres.sh --install)"

# Under the race detector every process would sleep a second at its end, also each process that a script starts.
deep-race-1 deep-race-2: export GORACE := atexit_sleep_ms=0

deep-race-1: ## the fast tests under the race detector in random order: all packages but those of deep-race-2
	@$(POSTGRES); $(DEEP) $$(scripts/race.sh) -shuffle=on $$($(GO) list ./... | grep -vE '^drawbridge/(cmd|relay)')

deep-race-2: ## the same for the programs and the relay
	@$(POSTGRES); $(DEEP) $$(scripts/race.sh) -shuffle=on ./cmd/... ./relay/...

deep-kills: ## killed processes, floods and all rows at the relay; KILLS (20) rounds of each loop, stories for SOAK (5m) from SEED (1)
	@$(POSTGRES); code=0; $(DEEP) -tags deep $(KILLPACKAGES) || code=1; \
	$(DEEP) -timeout=0 -tags deep ./proof/soak -soak.time=$(SOAK) -soak.seed=$(SEED) -soak.rounds=$(KILLS) || code=1; exit $$code

deep-scripts: ## all scripts against the built programs
	@$(POSTGRES); $(DEEP) -tags deep $(SCRIPTPACKAGES)

deep-proofs: ## ten thousand seeds, lost commits, replicas, whole tables
	@$(POSTGRES); $(DEEP) -tags deep $(PROOFPACKAGES)

deep-fuzz: ## every fuzz target with FUZZRUNS (5000) inputs
	@scripts/fuzz.sh $(FUZZRUNS)

deep-outside: staticcheck darwin vuln conformance agents clients ## staticcheck, vet for macOS, known vulnerabilities, official suites and real clients; needs npm

darwin:
	GOOS=darwin $(GO) vet -tags deep ./...

staticcheck:
	$(GO) vet -tags failpoint ./internal/failpoint ./proof/failport ./cmd/...
	$(GO) vet -tags conformance ./proof/mcp ./cmd/drawbridge
	$(GO) tool staticcheck -tags deep ./...
	cd packaging && GOFLAGS= $(GO) vet .

vuln: ## known vulnerabilities, when their data can be had
	@scripts/vuln.sh

conformance: ## the official MCP conformance suite and the official TypeScript clients against the MCP door; needs npm
	@scripts/conformance.sh

agents: ## real CLI agents from npm against the bridge, their models scripts on loopback; needs npm
	@scripts/agents.sh

clients: ## libraries and coding agents from npm against the OpenAI-compatible door, a script behind it; needs npm
	@scripts/clients.sh

browser: ## the stories of the page in a real browser, with screenshots in SHOTS; needs npm, and Chromium or npm's
	@scripts/browser.sh

bench: ## benchmarks, each comparing in one run; results in docs/bench
	@eval "$$(scripts/postgres.sh)"; $(GO) test -tags deep -run '^$$' -bench . -benchmem ./parser ./store ./policy ./webhooks ./bridge/engine ./mail ./mcpserver ./relay/wire ./relay/hub ./relay/runner ./relay/runner/keeper ./relay/agents/host ./relay/agents/turns ./web ./proof/measure

release: ## archives, Debian packages, container images and their checksums in OUT (dist); for PLATFORMS alone
	@cd packaging && GOFLAGS= $(GO) run . -out "$(abspath $(OUT))" -platforms "$(PLATFORMS)"

clean: ## remove what was built
	rm -rf bin dist
