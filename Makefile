# Payonce. `make` alone lists the targets.
#
# Nothing here needs settings, Docker or more than Go and make; `make postman` also needs Node, and
# `make browser`, `make screenshots` and `make pictures` Chromium. Settings of the programs
# pass through from the environment.

.DEFAULT_GOAL := help
# The steps of verify stop at the first failure and belong in order, also under -j.
.NOTPARALLEL:

GO ?= go
FUZZTIME ?= 10s
TEST_TIMEOUT ?= 15m
SEED ?= 1
QUICK_VARIANTS = design no-fence no-window retake-expired object-design same-object-again generations no-tombstone any-generation refunds-late refund-no-lock

SQLC = CGO_ENABLED=0 $(GO) tool -modfile=tools/go.mod sqlc
LINT = $(GO) tool -modfile="$(CURDIR)/tools/lint/go.mod" golangci-lint run --config "$(CURDIR)/.golangci.yml"
# Not tools/ and tools/lint: to judge those, go would download what only the tests of a tool's dependencies need.
# Nor lab/dbos, lab/sdks and lab/callers/golang: what the product is judged by must not depend on whether a peer can be had.
MODULES = . lab course deploy/composecheck
# The modules whose tests are counted together.
TESTED = .,lab,course

# In a checkout that git refuses to read (another owner's, or none at all) the go command cannot stamp the revision.
BUILD = $(GO) build $(shell git rev-parse --quiet --verify HEAD >/dev/null 2>&1 || echo -buildvcs=false)
# The server with which the demo compares.
BUILD_NAIVE = tools/build $(GO) build -C course $(filter -%,$(BUILD)) -o ../bin/naive ./steps/01
# For the labs, which are a module of their own: what to build is named as seen from there.
BUILD_LAB = cd lab && $(BUILD) -o ../bin/

# What everybody runs first says in one line that Go is missing or too old.
demo test build: need-go

.PHONY: need-go
need-go:
	@tools/need-go $(GO)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: ## run everything, on a private PostgreSQL; Ctrl-C ends it; PSP=stripe: speak to the PSP in Stripe's dialect; SHORT=1: keys expire after 40 s
	@tools/build $(BUILD) -o bin/demo ./cmd/demo
	@$(BUILD_NAIVE) || { rm -f bin/naive; echo "the naive server of the course cannot be built, so the demo compares nothing"; }
	@exec bin/demo

# With data of its own: a bug may be in a migration, which older data have had without it.
.PHONY: break
break: need-go ## the demo with one planted bug, on data of its own: make break BUG=fingerprint-ignored; without BUG, the list
	@$(BUILD_LAB) ./mutations
	@bin/mutations demo $(BUG)
	@DEMO_DATA_DIR="$${DEMO_DATA_DIR:-bin/break/$(BUG)/data}" exec bin/break/$(BUG)/demo

# A test that takes long asks testing.Short() and is left to test-all. With the race detector, tests take two to three times the CPU time, so CI has it
# for the product's packages that import sync, and make race for all.
# The linters vet everything, with more checks than go test does. What the tests build has no tables for debuggers (-w): linking takes a third less
# CPU time, and a panic has its trace all the same. With GOGC=400, the linker and the tests spend less of it on collecting garbage.
FRUGAL = GOGC=$${GOGC:-400} GOFLAGS="$$GOFLAGS -ldflags=-w"
.PHONY: test
test: ## run the tests of every package, without the long ones, in two and a half minutes; five the first time
	@$(BUILD) -o bin/testrun ./test/testrun
	@$(FRUGAL) exec bin/testrun $(GO) $(TESTED) -short -vet=off -count=1 -timeout $(TEST_TIMEOUT) ./...

.PHONY: test-all
test-all: ## run all tests in random order, those of internal/ that share something between goroutines with the race detector, in twelve minutes; CI does
	@$(BUILD) -o bin/testrun ./test/testrun
	@$(FRUGAL) exec bin/testrun $(GO) $(TESTED) $(patsubst -race,-race-in=payonce/internal,$(shell tools/race-flag $(GO))) \
		-shuffle=on -vet=off -count=1 -timeout $(TEST_TIMEOUT) ./...

# npm's packages of PostgreSQL, the newest of each major version when this was written.
VERSIONS ?= 15.18.0-beta.17 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17
.PHONY: postgres
postgres: ## run the short tests that need a database with PostgreSQL 15 to 18, in twelve minutes; needs npm; VERSIONS=18.4.0-beta.17 for one
	@$(BUILD) -o bin/testrun ./test/testrun
	@$(FRUGAL) exec tools/postgres $(GO) bin/testrun $(VERSIONS)

.PHONY: race
race: ## run all tests with the race detector, in twenty minutes
	@$(BUILD) -o bin/testrun ./test/testrun
	@$(FRUGAL) exec bin/testrun $(GO) $(TESTED) $(shell tools/race-flag $(GO)) -shuffle=on -vet=off -count=1 -timeout $(TEST_TIMEOUT) ./...

# What CI has no time for, or what it lacks. Everything here is also a target of its own.
.PHONY: proof-all
proof-all: ## all that needs hours, a registry or another PostgreSQL, in six hours; before an issue is closed
	$(MAKE) race postgres
	$(MAKE) matrix
	for seed in 1 2 3; do for psp in native stripe; do $(MAKE) chaos DURATION=3m SEED=$$seed PSP=$$psp || exit; done; done
	RELEASE=all $(GO) test -count=1 ./test/release
	$(MAKE) caller mutations model failover rolling citus grade sdks callers start-proof
	$(MAKE) failover HA=patroni
	$(MAKE) mutants

.PHONY: links
links: ## have the links of the course and of docs/sources.md lead to where their code is now
	@cd lab && $(GO) test -count=1 ./lessons -run Links -update

.PHONY: verify
verify: verify-generated verify-tidy verify-format lint verify-compose verify-tree ## check what must hold before every commit
	@echo "verify: all is well"

.PHONY: generate
generate: ## write the query code from db/
	$(SQLC) generate
	@$(GO) test -count=1 ./db/migrations/citus -update

# A release does it. It changes no line that is there: a file that has been released is never edited.
.PHONY: freeze
freeze: ## note the migrations that are new as released, in db/migrations/released.txt
	@$(GO) test -count=1 ./db/migrations -update

.PHONY: migrate
migrate: ## bring the database at DATABASE_URL to the newest schema
	@$(BUILD) -o bin/api ./cmd/api
	@exec bin/api migrate

.PHONY: postman
postman: ## run the Postman collection against a demo of its own; EXAMPLES=1 saves the answers in it
	@$(BUILD) -o bin/demo ./cmd/demo
	@tools/with-demo bin/demo tools/postman

.PHONY: browser
browser: ## click through every page in headless Chromium, against a demo of its own; needs Node and Chromium
	@$(BUILD) -o bin/ ./cmd/demo ./cmd/api
	@$(BUILD_NAIVE)
	@tools/browser bin/demo test

.PHONY: screenshots
screenshots: ## photograph every page, light and dark, at 360 and 1440 pixels, into bin/screenshots; needs Node and Chromium
	@$(BUILD) -o bin/demo ./cmd/demo
	@$(BUILD_NAIVE)
	@tools/browser bin/demo screenshots

.PHONY: pictures
pictures: ## photograph the console for docs/pictures; needs Node and Chromium, and pngquant for small files
	@$(BUILD) -o bin/demo ./cmd/demo
	@tools/browser bin/demo pictures

.PHONY: lint
lint: ## run the linters
	@echo "== linters"
	@for module in $(MODULES); do \
		(cd $$module && $(LINT) ./...) || { echo "to do: the lines above, or say why not with //nolint:<linter> // <reason>"; exit 1; }; \
	done

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10s)
	@tools/fuzz $(GO) $(FUZZTIME)

.PHONY: bench
bench: ## measure against PostgreSQL itself, in about six minutes; QUICK=1 in one; REF=<commit> against that commit
	@$(BUILD_LAB) ./bench
	@exec bin/bench

.PHONY: chaos
chaos: ## run everything through a storm, and check I1 to I11: make chaos DURATION=10m SEED=7; QUICK=1 for the short one; PSP=stripe for the other dialect
	@$(BUILD_LAB) ./chaos
	@exec bin/chaos

.PHONY: naive
naive: ## the same storm for Payonce and for step 01 of the course, side by side
	@$(BUILD_LAB) ./chaos
	SEED=$(SEED) REPORT=bin/naive.json bin/chaos
	SEED=$(SEED) TARGET=naive REPORT=bin/naive-naive.json bin/chaos

.PHONY: caller
caller: ## pay 10 000 intents while the calling process is killed at each of its boundaries, in ten minutes: make caller N=500 SEED=7
	@$(BUILD_LAB) ./caller
	@exec bin/caller

.PHONY: matrix
matrix: ## stop at every step and fail there in every way, in eight minutes; QUICK=1 for one cell of each row
	@$(BUILD_LAB) ./matrix
	@exec bin/matrix

.PHONY: model
model: ## check the key's state machine with Spin, in three minutes; needs spin and gcc; VARIANTS="no-fence …" for some
	@$(BUILD_LAB) ./model
	@exec bin/model $(VARIANTS)

.PHONY: grade
grade: ## check any payment server, in any language, in one minute: make grade TARGET=./my-server PROFILE=plain; without TARGET, Payonce itself
	@if [ -z "$(TARGET)" ] && [ "$${PROFILE:-payonce}" != payonce ]; then \
		echo "PROFILE=$$PROFILE is for a server of yours: make grade TARGET=./my-server PROFILE=$$PROFILE (docs/grade.md)"; exit 2; fi
	@$(BUILD_LAB) ./grade
	@if [ -n "$(TARGET)" ]; then exec bin/grade "$(TARGET)"; fi; \
		(cd lab && $(BUILD) -o ../bin/grade-payonce ./grade/payonce) && exec bin/grade bin/grade-payonce

.PHONY: start-proof
start-proof: ## copy the core, and the core with operations, into modules of their own; run all their tests there, and grade them
	@cd lab && START_PROOF=1 $(GO) test -count=1 -timeout 3h -run TestWholeCopy -v ./start

.PHONY: check
check: need-go ## check your copy of a lesson's step, in seconds: make check LESSON=2; FROM=course/steps/02 for another folder; without LESSON, the lessons that have one
	@$(BUILD_LAB) ./grade
	@GO="$(GO)" exec bin/grade --lesson "$(or $(LESSON),list)" $(if $(FROM),"$(FROM)")

.PHONY: sdks
sdks: ## have stripe-go (two majors) and stripe for Node tour the mock of Stripe, and four libraries verify our events, in two minutes; Node's need npm
	@cd lab/sdks && $(GO) test -count=1 -v .

.PHONY: callers
callers: ## have 30 public HTTP clients of seven languages pay while things fail, and write docs/callers.md, in four minutes; IN_FLIGHT_WAIT=0; ONLY=curl.sh,got for some
	@$(BUILD_LAB) ./callers
	@exec bin/callers

.PHONY: mutations
mutations: ## plant bugs, one by one, and have the matrix or the chaos run find each; QUICK=1 for three of them
	@$(BUILD_LAB) ./mutations
	@exec bin/mutations

.PHONY: proof
proof: ## the short version of matrix, chaos, mutations and model, in five minutes, by one seed: make proof SEED=7; an even seed has chaos at Stripe
	@$(BUILD_LAB) ./matrix ./chaos ./mutations ./model
	SEED=$(SEED) QUICK=1 bin/matrix
	SEED=$(SEED) QUICK=1 PSP=$(if $(filter %0 %2 %4 %6 %8,$(SEED)),stripe,native) bin/chaos
	SEED=$(SEED) QUICK=1 MUTATIONS=1 bin/mutations
	@command -v spin >/dev/null && command -v gcc >/dev/null || { echo "model: skipped, spin or gcc is not installed"; exit 0; }; \
		set -x; bin/model $(QUICK_VARIANTS)

.PHONY: mutants
mutants: ## take each guard away, one at a time, and have a test find it, in three hours; goes on where it stopped; PACKAGE=internal/payments SHARE=1/5 SEED=7 for a part
	@$(BUILD_LAB) ./mutants
	@exec bin/mutants

.PHONY: failover
failover: ## lose primaries, standbys and disk space under load, in four minutes; ONLY=sync for one case; QUICK=1; HA=patroni for a cluster manager, in twelve
	@$(BUILD_LAB) ./failover
	@exec bin/failover

.PHONY: rolling
rolling: ## update APIs and reconcilers one by one, under load, in four minutes; QUICK=1 in one; OLD=<git ref> for the version to update from
	@$(BUILD_LAB) ./rolling
	@exec bin/rolling

.PHONY: citus
citus: ## run the end-to-end tests, crashes, a storm and planted bugs on a coordinator and two workers, in half an hour; PARTS="tests matrix" for some; PG_BINDIR names a PostgreSQL that has Citus
	@$(BUILD_LAB) ./citus ./matrix ./chaos ./mutations
	@exec bin/citus $(PARTS)

.PHONY: size
size: ## count lines, files and words, by part of the tree; nothing is enforced
	@$(GO) run -C tools ./size

.PHONY: build
build: ## build all commands into bin/
	$(BUILD) -o bin/ ./cmd/...

# For linux and darwin, amd64 and arm64. A release is made of a commit: of a tag, if it has one.
.PHONY: release
release: need-go ## build api, reconciler, mockpsp and grade for four systems into bin/release, with checksums; the same bytes each time
	@tools/release $(GO) bin/release

.PHONY: clean
clean: ## remove what the other targets made
	rm -rf bin postman/node_modules test/browser/node_modules

.PHONY: verify-generated
verify-generated:
	@echo "== generated code is what db/ gives"
	@tools/verify-generated $(SQLC) || { echo "to do: make generate, and delete what it no longer writes"; exit 1; }

.PHONY: verify-tidy
verify-tidy:
	@echo "== go.mod files are tidy: $(MODULES)"
	@for module in $(MODULES); do \
		(cd $$module && $(GO) mod tidy -diff) || { echo "to do: (cd $$module && go mod tidy)"; exit 1; }; \
	done

.PHONY: verify-format
verify-format:
	@echo "== Go files are formatted"
	@files=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) && test -z "$$files" || { echo "$$files"; echo "to do: gofmt -w ."; exit 1; }

.PHONY: verify-compose
verify-compose:
	@echo "== compose.yaml, compose.citus.yaml and deploy/kubernetes are hardened"
	@cd deploy/composecheck && $(GO) test . && $(GO) run . ../../compose.yaml && $(GO) run . ../../compose.citus.yaml && \
		$(GO) run . ../kubernetes || \
		{ echo "to do: the lines above; deploy/composecheck/*hardening.go say what is asked"; exit 1; }

.PHONY: verify-tree
verify-tree:
	@echo "== imports, sizes, prose, River's schema, no traces of a machine"
	@$(GO) test -count=1 ./test/archtest || { echo "to do: the files named above; test/archtest says why"; exit 1; }
