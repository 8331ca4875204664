# `make` lists the targets; every step of CI is one of them.
#
#   KEEP=1          keep the cluster of `make trial` or `make e2e`, and reuse it
#   SEED=42         the seed of the plan; otherwise a new seed is drawn and printed
#   SCENARIO=name   the scenario of `make trial` (bin/seatrial list scenarios)
#   ARTIFACTS=dir   where run directories and JUnit files go (default runs/)
#   LABELS=filter   which specs `make e2e`, or trials `make nightly`, runs, as ginkgo --label-filter
#   TIMES=5         attempts for each case of `make cases`
#   BUDGET=2h       how long `make nightly` begins trials
#   SEATRIAL_HOST_CHANGES=no   install and start nothing on this host (default yes)
#   VERSION=v1.2.3  the version of `make release`; KEY=file signs its checksums

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help trial test unit pages e2e sets long cases certify upgrade plain large nightly kill-matrix demo bench verify fix docs clean doctor build release reproducible \
	install-check \
	linter \
	modules verify-docs verify-gofmt verify-lint verify-modules verify-sums verify-tidy verify-vet

SCENARIO ?= smoke
TIMES ?= 5
VERSION ?= v0.0.0
override ARTIFACTS := $(if $(ARTIFACTS),$(abspath $(ARTIFACTS)))
export KEEP ARTIFACTS SEED
export SEATRIAL_HOST_CHANGES ?= yes
# As releases are built: packages are compiled once for tests, programs and every clone.
export GOFLAGS := $(filter-out -trimpath,$(shell go env GOFLAGS 2>/dev/null)) -trimpath
export CGO_ENABLED ?= 0

# The programs that a release carries, as name=package: clusters/program finds them.
PROGRAMS = seatrial-agent=tools/agent seatrial-disk=fixtures/shareddisk/driver seatrial-mysql-start=fixtures/mysql/start \
	seatrial-offline=tools/offline seatrial-enginecheck=tools/offline/engine/enginecheck \
	seatrial-runcwrap=tools/offline/engine/runcwrap
ARCHITECTURES = amd64 arm64
# Where the command line runs. On a Mac it carries the programs for nodes that run Linux on the same architecture.
RELEASED = linux-amd64 linux-arm64 darwin-arm64
BUILD = CGO_ENABLED=0 GOWORK=off go build -trimpath -ldflags='-s -w'

# PROGRAM:PACKAGE of what trials need on this host.
PACKAGES = nft:nftables mkfs.xfs:xfsprogs ip:iproute2

# Packages whose tests need root, an engine or a cluster, found by the variable that enables them.
WITH = $(shell grep -rl --include='*_test.go' '$(1)' chaos clusters e2e examples fixtures tools | \
	xargs -rn1 dirname | grep -v -e e2e/suites | sort -u | sed 's,^,./,')
GATED = $(call WITH,SEATRIAL_E2E)
LONG = $(call WITH,SEATRIAL_LONG)
BENCHED = $(call WITH,^func Benchmark)
RUN_FLAGS = $(if $(KEEP),--keep --reuse) $(if $(SEED),--seed $(SEED))
SPEC_FLAGS = -ginkgo.v -ginkgo.no-color $(if $(SEED),-ginkgo.seed $(SEED)) \
	$(if $(LABELS),-ginkgo.label-filter '$(LABELS)')
GO_FILES = git ls-files --cached --others --exclude-standard -- '*.go' ':!:**/testdata/**'
SAY = printf '\n== %s\n'

help: ## List the targets
	@printf 'Seatrial breaks a Kubernetes cluster under a stateful workload, and judges what happens.\n\n'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@sed -n 's/^#   /  /p' Makefile

trial: ## Run a trial (SCENARIO) on a real kind cluster: 5 min, 30 min the first time
	@$(SAY) "trial $(SCENARIO): engine, images (25 min when they must be built), cluster, faults, verdict (5 min)"
	@$(MAKE) build
	bin/seatrial run $(SCENARIO) $(RUN_FLAGS)

test: build ## Run all tests: unit, then e2e; 30 min, 60 min the first time
	@$(SAY) "test: unit tests and recorded runs (1 min), engine and images, then the specs on a real cluster (25 min)"
	@bash .ci/packages chromium:chromium $(PACKAGES)
	@$(MAKE) unit
	@nice $(MAKE) pages >bin/pages-beside.log 2>&1 & pages=$$!; rc=0; $(MAKE) e2e UNIT=bin/unit.log || rc=1; \
	wait $$pages || rc=1; cat bin/pages-beside.log; exit $$rc

unit: ## Run the tests that need no container engine; 1 min, 5 min the first time
	@$(SAY) "unit: go test ./... without engine or cluster; lists what it did not run"
	@$(MAKE) modules
	@env -u SEATRIAL_E2E go test $(if $(CI),-count=1) -vet=off -v ./... 2>&1 | tee bin/unit.log | awk -f .ci/digest.awk

pages: build ## Draw the page of every recorded run and test it in headless Chromium; 1 min
	@bash .ci/packages chromium:chromium
	@rm -rf bin/pages; mkdir -p bin/pages
	@for run in fixtures/recorded/*/; do bin/seatrial report -o html $$run > bin/pages/$$(basename $$run).html; done
	@SEATRIAL_PAGES=$(CURDIR)/bin/pages go test -count=1 -run 'TestMillionOperations|TestHostileNames' ./e2e/report/page
	@go -C tools/browser test -v -count=1 ./... 2>&1 | tee bin/pages.log | awk -f .ci/digest.awk

e2e: ## Run the tests that need root, an engine and a cluster, package by package; 25 min
	@$(SAY) "e2e: container engine, images (25 min when they must be built), then the tests (25 min)"
	@$(MAKE) build
	@bash .ci/packages $(PACKAGES)
	bin/seatrial setup -o env > bin/e2e.env
	@$(SAY) "e2e: on real nodes and clusters, package by package; a test that does not run fails the target"
	@GATED="$(GATED)" LABELS='$(LABELS)' UNIT='$(UNIT)' bash .ci/e2e $(SPEC_FLAGS)

sets: ## Run every scenario of StatefulSets on one cluster: plain, with each fault, and sabotaged; 4 h
	@SUITES_TIMEOUT=8h $(MAKE) e2e LABELS='$(or $(LABELS),set)' GATED=

long: build ## Run the longest tests on clusters: faults, disks, workload, no API server; 90 min
	@env $$(bin/seatrial setup -o env) SEATRIAL_LONG=1 go test -v -count=1 -p 1 -timeout 90m \
		$(LONG) 2>&1 | tee bin/long.log | awk -f .ci/digest.awk

cases: build ## Reproduce every reported bug on real clusters, TIMES (5) each, on three clusters; 90 min
	@bash .ci/packages $(PACKAGES)
	@TIMES=$(TIMES) bash .ci/cases $(RUN_FLAGS)

certify: build ## Audit and try a kind cluster, sign what was shown, verify it; PROFILE (quick), 20 min
	@bash .ci/packages $(PACKAGES) ssh-keygen:openssh-client
	@test -f bin/certify.key || ssh-keygen -q -t ed25519 -N '' -f bin/certify.key
	@rm -rf bin/certificate
	bin/seatrial certify run --key bin/certify.key --to v1.37 --profile $(or $(PROFILE),quick) --runs bin/certificate/runs \
		--out bin/certificate $(RUN_FLAGS)
	bin/seatrial verify bin/certificate/certificate.json bin/certificate/runs --key bin/certify.key.pub

upgrade: build ## Upgrade a kind cluster from v1.36.3 to TO (v1.37.0) under MySQL load; 9 min with images
	@bash .ci/packages $(PACKAGES)
	bin/seatrial certify upgrade --to $(or $(TO),v1.37.0) $(RUN_FLAGS)

plain: build ## Run smoke on kubeadm in Debian containers, or with PLAIN_VM=1 cut the power of one in QEMU; 10 min
	@env $$(bin/seatrial setup -o env) bash -euc 'trap "clusters/existing/plain/cluster down" EXIT; \
		config=$$(clusters/existing/plain/cluster up); \
		bin/seatrial run $(or $(PLAIN_PLAN),smoke $(if $(SEED),--seed $(SEED))) \
			--kubeconfig $$config --yes-context kubernetes-admin@plain'
plain: PLAIN_PLAN = $(if $(PLAIN_VM),--plan clusters/existing/plain/power.yaml \
	--node-hook $(CURDIR)/clusters/existing/plain/cluster)

large: build ## Run trials by kubeconfig in a cluster with 1,000 nodes and 10,000 pods of kwok; 25 min
	@bash .ci/large

nightly: build ## Run every scenario and case without a verdict, then new seeds, for BUDGET (2h); SHARD=2/7 LABELS=light
	@bash .ci/packages $(PACKAGES)
	bin/seatrial nightly --budget $(or $(BUDGET),2h) $(if $(SHARD),--shard $(SHARD)) $(if $(SEED),--seed $(SEED)) \
		$(if $(LABELS),--label-filter '$(LABELS)') $(if $(RUNS),--runs $(RUNS))

kill-matrix: build ## Kill the harness at every step of 17 faults, of FAULTS=a,b, or of FAULTS=all; 30 min
	@bash .ci/kill-matrix $(if $(FAULTS),-faults $(FAULTS))

demo: ## Show a recorded run without engine or cluster: two nodes on one volume, and the rows lost
	@mkdir -p bin && go build -o bin/seatrial ./tools/seatrial && bin/seatrial demo
	@bin/seatrial demo -o html > bin/demo.html && echo 'the same as a page: bin/demo.html'

bench: build ## Measure: mount ledger, cuts, kills and timers against their targets, codecs, checks; 20 min, needs root
	SEATRIAL_E2E=1 env $$(bin/seatrial setup -o env) go test -run ^$$ -bench . -benchmem -p 1 -timeout 30m $(BENCHED)

verify: ## Run all static checks: format, vet, house rules, modules, linters; 5 min, 15 min the first time
	@$(SAY) "verify: all checks, then the result; builds the linter the first time (5 min)"
	@$(MAKE) modules
	@$(MAKE) -k verify-gofmt verify-vet verify-tidy verify-docs verify-modules verify-sums verify-lint || \
		{ echo "verify: FAILED, see above; make fix repairs what a program can repair"; exit 1; }
	@echo "verify: all checks passed"

verify-gofmt:
	@$(SAY) "gofmt"
	@bad=$$($(GO_FILES) | xargs -r ls 2>/dev/null | xargs -r gofmt -l); test -z "$$bad" || { echo "$$bad"; exit 1; }

verify-vet: ; @$(SAY) "go vet ./..., and the command line for macOS"; go vet ./... && \
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet ./tools/seatrial
verify-tidy: ; @$(SAY) "house rules (tools/tidy)"; go test -count=1 ./tools/tidy
verify-docs: docs ; @$(SAY) "docs/ is what make docs writes"; git diff --exit-code --stat docs
verify-modules: ; @$(SAY) "go mod tidy -diff"; go mod tidy -diff
verify-sums: ; @$(SAY) "go mod verify"; go mod verify
verify-lint: linter ; @$(SAY) "golangci-lint run"; bin/golangci-lint run

fix: linter ## Repair format, imports, go.mod, simple findings of the linters
	$(GO_FILES) | xargs -r gofmt -w -s; go mod tidy; bin/golangci-lint run --fix

docs: ## Write the tables and JSON Schemas in docs/ from the definitions of faults, checks, cases and plans
	@for kind in audit cases checks faults; do go run ./tools/seatrial list $$kind -o markdown > docs/$$kind.md; done
	@go run ./tools/schema docs/schema

doctor: build ## Say what this host has and what it lacks
	bin/seatrial doctor

clean: ## Delete Seatrial's clusters, its container engine, its changes to the host, and bin/
	@$(SAY) "clean: Seatrial's clusters and what they left; then the engine, if Seatrial started it"
	if go build -o bin/seatrial ./tools/seatrial; then bin/seatrial clean --all; else go run ./tools/offline clean; fi
	rm -rf bin

build: modules ## Build bin/seatrial, and beside it what it puts on nodes; 1 min, 3 min the first time
	@for program in $(PROGRAMS); do $(BUILD) -buildvcs=false -o bin/$${program%%=*} ./$${program#*=}; done
	$(BUILD) -buildvcs=auto -o bin/seatrial ./tools/seatrial

release: modules ## Build bin/release: one file for each platform, SBOMs, krew manifest, checksums; 5 min
	@rm -rf bin/release clusters/program/programs-*.tar.gz; mkdir -p bin/release
	@for arch in $(ARCHITECTURES); do \
		export GOFLAGS= GOOS=linux GOARCH=$$arch; work=bin/release/programs-$$arch; mkdir $$work; \
		for program in $(PROGRAMS); do \
			$(BUILD) -buildvcs=false -o $$work/$${program%%=*} ./$${program#*=}; \
		done; \
		(cd $$work; tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=755 --format=ustar -c *) | \
			gzip -9n > clusters/program/programs-linux-$$arch.tar.gz; \
		rm -r $$work; \
	done
	@for to in $(RELEASED); do \
		GOFLAGS= GOOS=$${to%-*} GOARCH=$${to#*-} $(BUILD) -buildvcs=auto -tags release \
			-o bin/release/seatrial-$$to ./tools/seatrial; \
	done
	@go run ./tools/release -version $(VERSION) $(if $(KEY),-key $(KEY)) bin/release; ls -l bin/release

reproducible: ## Build the release of the last commit twice, in two directories, and compare every byte; 10 min
	@rm -rf bin/first bin/second; for n in first second; do git clone -q . bin/$$n; $(MAKE) -C bin/$$n release; done
	@diff -r bin/first/bin/release bin/second/bin/release && echo "reproducible: the same bytes"; rm -rf bin/first bin/second

install-check: ## Run a release of this architecture in an empty container, and as a user in the group docker; 15 min
	@$(MAKE) release ARCHITECTURES=$$(go env GOARCH) RELEASED=linux-$$(go env GOARCH)
	@$(MAKE) build && bin/seatrial setup -o env >/dev/null # All images are there to be saved.
	@SEATRIAL_RELEASE=$(CURDIR)/bin/release/seatrial-linux-$$(go env GOARCH) \
		go test -count=1 -v -timeout 1h -run '^TestInstalled$$' ./tools/seatrial

linter:
	@test -x bin/golangci-lint || $(SAY) "build golangci-lint from tools/lint (5 min the first time)"
	@go -C tools/lint build -o $(CURDIR)/bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

modules:
	@mkdir -p bin; ! GOPROXY=off go list -deps -test ./... 2>&1 | grep -q 'lookup disabled' || \
		$(SAY) "Go downloads the modules it needs first (about 150 MB, 1 to 3 min)"
