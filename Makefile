# What can be done here. Every target does its own set-up; all but `integration` need Go alone.

VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
SHARED      ?= ../shared
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
BENCHTIME   ?= 1s
BENCHCOUNT  ?= 1
FUZZTIME    ?= 20s
SEEDS       ?= 200
DAMAGES     ?= 300
SOAK        ?= 10m
ROUNDS      ?= 5
GOFILES     := $(shell git ls-files -co --exclude-standard '*.go')

.PHONY: build demo test check race randomops damage soak lint fuzz bench bench-kafka golden integration cover clean help

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: bin/rsmhost bin/rsm-localfs bin/rsm-localfs.wasm ## bin/rsmhost, bin/rsm-localfs, bin/rsm-localfs.wasm

bin/rsmhost: $(GOFILES) go.mod
	go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $@ ./cmd/rsmhost

bin/rsm-localfs: $(GOFILES) go.mod
	go build -trimpath -ldflags '-s -w' -o $@ ./plugins/localfs/rsm-localfs

# Go's linker declares no memory maximum and knows no manifest: wasmpack adds both.
bin/rsm-localfs.wasm: $(GOFILES) go.mod
	GOOS=wasip1 GOARCH=wasm go build -trimpath -ldflags '-s -w' -buildmode=c-shared -o $@.tmp ./plugins/localfs/rsm-localfs
	go run ./internal/tools/wasmpack -o $@ $@.tmp
	rm -f $@.tmp

demo: build ## reads bundled tiered data through the module and the process, step by step; serves it to a consumer group
	@sh examples/demo.sh

test: ## every test: needs Go and nothing else
	go test ./...

race:
	go test -race ./...

check: lint race randomops damage ## what CI holds every change against: format, vet, staticcheck, import rules, race, builds, go.mod
	go build -o /dev/null ./examples/...
	GOOS=darwin GOARCH=arm64 go vet ./...
	GOOS=linux  GOARCH=arm64 go build ./...
	GOOS=darwin GOARCH=arm64 go build ./...
	GOOS=wasip1 GOARCH=wasm  go build ./abi ./abi/sdk ./plugins/localfs
	go mod tidy -diff

randomops: ## random operations on tiered logs against a model, SEEDS times; and that bugs planted in the read path are found
	go test -count=1 -run TestRandomOperations ./internal/randomops -randomops.seeds $(SEEDS)
	go test -count=1 -tags plantedbug -run TestPlanted ./internal/randomops

damage: ## random damage to files of recorded brokers, DAMAGES times: right records, or an error or a finding that says where
	go test -count=1 -run TestDamages ./internal/damage -damage.seeds $(DAMAGES)

soak: ## new random operations, new random damage, and consumers that read while the plugin is killed, for SOAK each
	go test -count=1 -v -timeout 0 -run TestSoak ./internal/randomops -randomops.soak $(SOAK)
	go test -count=1 -v -timeout 0 -run TestSoak ./internal/damage -damage.soak $(SOAK)
	go test -count=1 -v -timeout 0 -run TestPluginKills ./internal/e2e -e2e.soak $(SOAK)

lint:
	@test -z "$$(gofmt -l $(GOFILES))" || { echo "not gofmt-ed:"; gofmt -l $(GOFILES); exit 1; }
	go vet ./...
	go vet -tags integration ./internal/e2e
	go run $(STATICCHECK) ./...
	go test ./internal/archtest

fuzz: ## each fuzz target for FUZZTIME
	@sh internal/tools/fuzz.sh $(FUZZTIME)

bench: ## ratios of the placements to built-in code, starts, parsers; never fails on a time
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(BENCHCOUNT) ./internal/e2e ./host/... ./abi/...

bench-kafka: build ## rsmhost beside a real Kafka on the same data, in turns; needs SHARED, Java 17 and Maven
	go run ./internal/tools/benchkafka -shared "$(abspath $(SHARED))" -rounds $(ROUNDS)

golden: ## rewrites the transcripts that tests compare with; review them as code
	go test ./cmd/rsmhost -update

integration: ## what needs more than Go: SHARED (a real broker, clients), Java 17, Maven, strace, kcat, Python, Node; about 25 minutes
	@test -d "$(SHARED)/fixtures" || { echo "SHARED=$(SHARED) holds no fixtures/: run make integration SHARED=<the folder with fixtures/, kafka/ and clients/>"; exit 1; }
	@missing=$$(sh internal/tools/needs.sh); test -z "$$missing" || { echo "make integration needs more than is here (Debian: apt-get install $$missing)"; exit 1; }
	SHARED="$(abspath $(SHARED))" go test -tags integration -count=1 -timeout 60m -run "TestRealBroker|TestSharedFixtures|TestSendfile|TestClients|TestKafkaTools|TestChangingStore|TestStreams|TestConnect|TestMirrorMaker" ./internal/e2e

cover: ## test coverage by package
	go test -cover ./...

clean: ## removes what was built
	rm -rf bin
