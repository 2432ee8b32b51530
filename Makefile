# Everything runs from here. Go, git and make are enough for `run` and `test`; what else a target needs, it says.

VERSION   ?= 0.1.0
COMMIT    := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
PACKAGES  := ./proto/... ./gateway/... ./services/...
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
TESTFLAGS ?=
# Anything, to run what e2e starts under the race detector (needs a C compiler).
RACE      ?=
# One way to compile everything, so that Go does it once: as what is released is, without
# paths and C. gRPC's own tracing pages would be linked in, and with their templates every
# exported method of the program: 17 MB.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -tags=grpcnotrace)
export CGO_ENABLED := 0
# The daemon's version is the one in services/tools; it only says it.
BUILDKIT   = $(shell cd services/tools && GOWORK=off go list -m -f '{{.Version}}' github.com/moby/buildkit)

# Tools, all pinned. `go run` keeps them in Go's own caches.
BUF    := go run github.com/bufbuild/buf/cmd/buf@v1.70.0
LINT   := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.6.0

.PHONY: help build builder run test e2e bench lint k8s-lint k8s-e2e monitoring-lint image image-test release release-test web-lint generate fuzz clean

help: ## Say what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/' | expand -t 12

build: ## Build bin/slipwayd, bin/slipway, and bin/slipway-runc that starts the steps of builds
	go build -p 2 -ldflags '$(LDFLAGS)' -o bin/ ./services/cmd/slipwayd ./services/cmd/slipway
	go build -p 2 -ldflags '-s -w' -o bin/ ./services/cmd/slipway-runc

builder: ## Build bin/buildkitd, bin/slipway-runc, and bin/runc (that needs gcc, pkg-config, libseccomp-dev)
	cd services/tools && GOWORK=off go build -p 2 \
		-ldflags '-s -w -X github.com/moby/buildkit/version.Version=$(BUILDKIT)' -o ../../bin/buildkitd github.com/moby/buildkit/cmd/buildkitd
	go build -p 2 -ldflags '-s -w' -o bin/ ./services/cmd/slipway-runc
	@if services/tools/missing.sh; then \
		cd services/tools && GOWORK=off CGO_ENABLED=1 go build -p 2 -tags seccomp -ldflags '-s -w' -o ../../bin/runc github.com/opencontainers/runc; \
	fi

run: build builder ## Start everything in one process, on http://localhost:9090 (as root it builds images too)
	bin/slipwayd serve

# The tests of the whole program come first: they wait more than they compute, and the
# other packages run meanwhile. So do other tests, so more run at a time than there are processors.
test: ## Run the tests that need nothing installed
	go vet $(PACKAGES)
	go test -vet=off -p 2 -parallel 8 -timeout 30m $(TESTFLAGS) ./services/e2e $(PACKAGES)

# The packages two at a time; then the program alone, whose tests mostly wait for it.
# Packages in which nothing runs at once and that need no server pass `make test` alone.
e2e: export SLIPWAY_TEST_REAL := 1
e2e: export SLIPWAY_TEST_RACE := $(RACE)
e2e: builder ## Run the same tests on real Redis, NATS and PostgreSQL, and real clients (root; RACE=1; see services/e2e)
	$(if $(RACE),CGO_ENABLED=1) go test -vet=off -p 2 -timeout 30m $(if $(RACE),-race) $(TESTFLAGS) $$(services/tools/concurrent.sh)
	go test -vet=off -p 2 -parallel 4 -timeout 60m $(TESTFLAGS) ./services/e2e

bench: build builder ## Measure against peers; prints JSON and a table
	go run ./services/bench

lint: ## Check style, generated files and the contract's compatibility
	test -z "$$(gofmt -l gateway services deploy | tee /dev/stderr)"
	$(LINT) run $(PACKAGES)
	cd deploy && GOWORK=off $(LINT) run ./...
	cd deploy/k8s/e2e && GOWORK=off $(LINT) run . ./pause
	$(BUF) lint
	./services/tools/breaking.sh "$(BUF)"
	./services/tools/generated.sh
	if command -v npm >/dev/null; then $(MAKE) web-lint; else echo 'There is no npm: the types of the web page are not checked'; fi
	if command -v promtool >/dev/null; then $(MAKE) monitoring-lint; else echo 'There is no promtool: the alert rules are not checked'; fi

k8s-lint: ## Check the manifests and the compose file of deploy/ without a cluster
	cd deploy && GOWORK=off go test ./... && GOWORK=off go run ./lint .

k8s-e2e: ## Prove the manifests on a two-node cluster made here (root; the first time it compiles Kubernetes)
	$(MAKE) image PLATFORMS=linux/$$(go env GOARCH)
	deploy/k8s/e2e/prepare.sh
	cd deploy/k8s/e2e && "$${XDG_CACHE_HOME:-$$HOME/.cache}/slipway/k8s/bin/e2e" -report REPORT.md

image: ## Make both images, reproducibly, as bin/images/* (PLATFORMS, PUSH: see deploy/docker/image.sh)
	VERSION=$(VERSION) deploy/docker/image.sh

release: ## Make what people download, reproducibly, as bin/release/* (VERSION, PLATFORMS: see deploy/release/release.sh)
	VERSION=$(VERSION) deploy/release/release.sh

release-test: builder ## Install the packages in a clean root and start them there (root, on Debian; see deploy/release/test.sh)
	deploy/release/test.sh

image-test: ## Make the images twice and compare their digests
	deploy/docker/test.sh

monitoring-lint: ## Check alert rules and dashboards (promtool, of Debian's prometheus)
	promtool check rules deploy/monitoring/alerts.yaml
	promtool test rules deploy/monitoring/alerts_test.yaml
	go test -count=1 -run 'TestMonitoring|TestPromtool' ./services/app

web-lint: ## Check the types of the web page (npm)
	cd gateway/web && npm install --silent --no-save --no-package-lock --ignore-scripts typescript@7.0.2 \
		$$(awk '!/^#/ { print $$3 "@" $$4 }' npm/LIST | sort -u) && npx tsc -p .

generate: ## Make proto/gen, deploy/config.md and deploy/metrics.md anew
	$(BUF) generate
	go run ./services/cmd/slipwayd config --markdown > deploy/config.md
	go run ./services/cmd/slipwayd metrics > deploy/metrics.md

fuzz: ## Fuzz every parser of outside text for a while each (FUZZTIME=30s)
	./services/tools/fuzz.sh $(or $(FUZZTIME),30s)

clean: ## Remove what was built
	rm -rf bin
