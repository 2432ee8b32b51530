# Go, git and make are sufficient for `run` and `test`; other targets state what else they need.

VERSION   ?= 0.1.0
COMMIT    := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
PACKAGES  := ./docs/... ./proto/... ./gateway/... ./services/...
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
TESTFLAGS ?=
# RACE=packages tests packages under the race detector, and RACE=1 also the programs of e2e, which takes
# a third longer (needs a C compiler).
RACE      ?=
# The same flags for everything, so that packages are compiled once: like releases, without
# paths and cgo. The tag excludes gRPC's tracing pages, whose templates would make the linker
# keep every exported method of the program: 17 MB.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -tags=grpcnotrace)
export CGO_ENABLED := 0
# The race detector instruments everything but SQLite, which is translated from C: it would take most
# of the time.
RACEFLAGS := -race -gcflags=modernc.org/...=-race=false
# The version that the daemon reports is the one in services/tools.
BUILDKIT   = $(shell cd services/tools && GOWORK=off go list -m -f '{{.Version}}' github.com/moby/buildkit)

# Pinned tools. `go run` stores them in Go's caches.
BUF    := go run github.com/bufbuild/buf/cmd/buf@v1.70.0
LINT   := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.6.0

.PHONY: web help build builder run test e2e bench lint k8s-lint k8s-prepare k8s-e2e monitoring-lint image image-test release release-test web-lint python-lint python-test generate proto reference fuzz clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/' | expand -t 12

build: ## Build bin/slipwayd, bin/slipway, and bin/slipway-runc, which starts build steps
	go build -p 2 -ldflags '$(LDFLAGS)' -o bin/ ./services/cmd/slipwayd ./services/cmd/slipway
	go build -p 2 -ldflags '-s -w' -o bin/ ./services/cmd/slipway-runc

builder: ## Build bin/buildkitd, bin/slipway-runc, and bin/runc (needs gcc, pkg-config, libseccomp-dev)
	cd services/tools && GOWORK=off go build -p 2 \
		-ldflags '-s -w -X github.com/moby/buildkit/version.Version=$(BUILDKIT)' -o ../../bin/buildkitd github.com/moby/buildkit/cmd/buildkitd
	go build -p 2 -ldflags '-s -w' -o bin/ ./services/cmd/slipway-runc
	@if services/tools/missing.sh; then \
		cd services/tools && GOWORK=off CGO_ENABLED=1 go build -p 2 -tags seccomp -ldflags '-s -w' -o ../../bin/runc github.com/opencontainers/runc; \
	fi

run: build builder ## Start everything in one process, on http://localhost:9090 (as root it builds images too)
	bin/slipwayd serve

# The end-to-end tests start first: they mostly wait, while the other packages run. Other tests
# wait too, so more tests run concurrently than there are processors. ONLY selects packages.
test: ## Run the tests that need no installed programs (ONLY)
	go vet $(or $(ONLY),$(PACKAGES))
	go test -vet=off -p 2 -parallel 8 -timeout 30m $(TESTFLAGS) $(or $(ONLY),./services/e2e $(PACKAGES))

# Two packages at a time, then the end-to-end tests. Packages without concurrency and without
# servers only run in `make test`.
e2e: export SLIPWAY_TEST_REAL := 1
e2e: builder ## Run the same tests on real Redis, NATS and PostgreSQL, and real clients (root; RACE; see services/e2e)
	SLIPWAY_TEST_RACE=$(RACE) $(if $(RACE),CGO_ENABLED=1) go test -vet=off -p 2 -timeout 30m $(if $(RACE),$(RACEFLAGS)) $(TESTFLAGS) $$(services/tools/concurrent.sh)
	SLIPWAY_TEST_RACE=$(filter-out packages,$(RACE)) go test -vet=off -p 2 -parallel 4 -timeout 80m $(TESTFLAGS) ./services/e2e

bench: build builder ## Compare the performance with other programs; prints JSON and a table
	go run ./services/bench

lint: ## Check style, generated files and the contract's compatibility
	test -z "$$(gofmt -l gateway services deploy | tee -a /dev/stderr)"
	$(LINT) run $(PACKAGES)
	cd deploy && GOWORK=off $(LINT) run ./...
	cd deploy/k8s/e2e && GOWORK=off $(LINT) run . ./pause
	$(BUF) lint
	./services/tools/breaking.sh "$(BUF)"
	./services/tools/generated.sh
	./services/tools/vulncheck.sh
	if command -v npm >/dev/null; then $(MAKE) web-lint; else echo 'There is no npm: the types of the web page are not checked'; fi
	if python3 -c 'import ensurepip' 2>/dev/null; then $(MAKE) python-lint; else echo 'There is no python3 with venv: the Python client is not checked'; fi
	if command -v promtool >/dev/null; then $(MAKE) monitoring-lint; else echo 'There is no promtool: the alert rules are not checked'; fi

k8s-lint: ## Check the manifests and the compose file of deploy/ without a cluster
	cd deploy && GOWORK=off go test ./... && GOWORK=off go run ./lint .

# The cache of compiled programs, such as Kubernetes and runc, until their sources change.
K8S_CACHE = $${XDG_CACHE_HOME:-$$HOME/.cache}/slipway/k8s

k8s-prepare: ## Build the images and the cluster programs for k8s-e2e (compiles Kubernetes the first time)
	UNPINNED=1 RUNC_CACHE="$(K8S_CACHE)" $(MAKE) image PLATFORMS=linux/$$(go env GOARCH)
	deploy/k8s/e2e/prepare.sh

# SCENARIOS selects scenarios by name, separated by commas; PREPARED=1 uses the results of k8s-prepare; TRIES is the number
# of attempts of a failing scenario.
k8s-e2e: $(if $(PREPARED),,k8s-prepare) ## Test the manifests on a two-node cluster on this machine (root; SCENARIOS, PREPARED, TRIES)
	cd deploy/k8s/e2e && "$(K8S_CACHE)/bin/e2e" -run "$(SCENARIOS)" -tries "$(or $(TRIES),1)" -report "$(or $(REPORT),REPORT.md)"

image: ## Build both images reproducibly as bin/images/* (PLATFORMS, PUSH: see deploy/docker/image.sh)
	VERSION=$(VERSION) deploy/docker/image.sh

release: ## Build the release files reproducibly as bin/release/* (VERSION, PLATFORMS: see deploy/release/release.sh)
	VERSION=$(VERSION) deploy/release/release.sh

release-test: builder ## Install the packages in a clean root file system and boot it (root, on Debian; see deploy/release/test.sh)
	deploy/release/test.sh

image-test: ## Build the images twice and compare their digests
	deploy/docker/test.sh

monitoring-lint: ## Check alert rules and dashboards (promtool, of Debian's prometheus)
	go test -count=1 -run 'TestMonitoring|TestPromtool' ./services/app

web-lint: ## Check the types of the web page (npm)
	cd gateway/web && npm install --silent --no-save --no-package-lock --ignore-scripts typescript@7.0.2 \
		$$(awk '!/^#/ { print $$3 "@" $$4 }' npm/LIST | sort -u) && npx tsc -p .

python-lint: ## Check the style and the types of the Python client (python3 with venv, PyPI)
	deploy/python/check.sh lint

python-test: ## Run the tests of the Python client that need no server (python3 with venv, PyPI)
	deploy/python/check.sh test

generate: proto reference web ## Generate all generated files: proto, reference and web

proto: ## Generate proto/gen (Go, gateway and OpenAPI) from proto/slipway
	$(BUF) generate

# An interrupted command leaves the old page unchanged.
reference: ## Generate deploy/config.md, docs/operate/metrics.md and the diagram of the architecture
	go run ./services/cmd/slipwayd config --markdown > deploy/.config.md && mv deploy/.config.md deploy/config.md
	go run ./services/cmd/slipwayd metrics > deploy/.metrics.md && mv deploy/.metrics.md docs/operate/metrics.md
	docs/develop/architecture.sh > docs/develop/.architecture.svg && mv docs/develop/.architecture.svg docs/develop/architecture.svg

# Commit the result together with the sources in gateway/web.
web: ## Generate gateway/web/dist, the scripts and styles that slipwayd serves
	cd services/tools/bundle && GOWORK=off go run . ../../../gateway/web ../../../gateway/web/dist

fuzz: ## Fuzz every parser of untrusted input for a limited time (FUZZTIME=30s)
	./services/tools/fuzz.sh $(or $(FUZZTIME),30s)

clean: ## Delete build results
	rm -rf bin
