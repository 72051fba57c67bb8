# The commands of a contributor. `make` without a target lists the targets.
#
# demo, build, test and bench need only Go. testrace also needs a C compiler,
# testarm64 needs qemu's user emulation, testnpu needs a library that npm
# fetches, and testgpu needs an OpenCL driver. The first run of lint builds its
# tools from tools/go.mod.

GO   ?= go
QEMU ?= qemu-aarch64-static

# The time for each fuzz target, the pattern that selects benchmarks, and the
# commit that bench-compare measures as the baseline.
FUZZTIME ?= 60s
BENCH    ?= .
BASE     ?= HEAD
# Documents that recall reads at once.
JOBS     ?= 1

# Runs go test and says what failed. A step states its time limit: Go's own is 10 minutes a package.
TESTREPORT := GO="$(GO)" $(GO) run ./internal/testreport

# Targets run llmrun without the settings of whoever runs make.
export LLMRUN_CONFIG := /dev/null

# Makes the targets that follow side by side, where one alone leaves processors idle: it compiles little or
# ends with one slow test. A target prints what it has to say when it has ended.
SIDE_BY_SIDE = +@$(MAKE) --no-print-directory -j $$(getconf _NPROCESSORS_ONLN) $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

# Packages with concurrent code. The race detector makes arithmetic many times slower, so of packages that compute
# it runs the tests in which goroutines meet.
RACE_PACKAGES ?= ./exec/weights ./internal/bench ./store/digest ./store/pack ./hetero/cpu ./hetero/devices ./hetero/onnx ./hetero/opencl ./hetero/rates ./hub ./internal/cli/... ./internal/threadpool ./kv/... ./prefetch/... ./quant/limits ./examples/notesapp ./serve ./store/vfs/... ./tiering/...
RACE_LIBRARY  ?= Cancel|Close|Concurrent|Fork|SharedPass|Sessions|Candidates|Beams|Branches|DraftModelDoesNot|SetBudget|Watch|Trim|SaveWhile|SavedBehind|SavedDuring|Prefix|WhileStreaming|DuringRun|Leaks|AtTheSameTime|AtOnce|Interrupted|Spill|SlowDisk|Reward|InLoop|Mapped|Guessing
RACE_EXEC     ?= DoNotDependOnChunksOrThreads|SharedSpans|Cancel|SplitPass
RACE_COMMAND  ?= PullPackSurvives|Signals|Collect|KeyReader|LineEditing

# Tests that measure the machine, and the packages that have one. They run one at a time.
MEASURED_PACKAGES = $(sort $(dir $(shell grep -rl --include='*_test.go' '^func TestMeasured' . )))

# Tests that the race detector makes too slow. Most of them are sequential; the goroutines of the others, such as
# those of crashes and faults in kv, also meet in tests that stay.
RACE_SKIP ?= SetBudgetOfSplit|SavesLeaveRoom|ConversionsEqual|SurvivesCrashes|EveryFaultIs|PutWritesOnly|FrequentBeats|SplitProperties|PlanProperties|Metamorphic|EveryRefusedRequest|EveryFailedOperation|Flipped|KilledAtEvery|PlanAndOpenAgree|PlanMemory|DemoAnswers|DemoNotes|ReadInPieces|HeadersAreReserved|GoldenTranscripts|QuantizationLoss|BudgetHolds|LedgerAtEvery|ReplacedWhileOpen|AdaptersBeside|FirstRefusal|DamagedPackWithout|ReportsLeave|MemoryStaysInBudget|FirstSplitStays|PlanOfASliding|RowCacheBeatsLRU|StoredValuesAreClose|SummariesBoundStored|ReadableAtAnyAddress|StatedMinimumOf|ImportKeepsWeights|ImportLosesNothing|PacksKeepTheMetadata|W8A8Prefixes|DeviceSessions

# Tests that take a sample of the cases without LLMRUN_TEST_SWEEP.
SWEEP ?= SummariesSurviveKills|SummariesHoldTheir|EveryRefusedRequest|EveryFailedOperation|FlippedBytesAreDetected|FlippedBitIs|KilledAtEvery|Metamorphic|BudgetHolds|WithinLedger|DemoAnswers|DemoNotes|ColdKVGives|SelectionDepends|SharedPass|SavedSessionSelects|SetBudgetWhile|DamagedPackIs|PlanAndOpenAgree|KnownAnswersCount|DraftsDoNot|DraftModelDoesNot|EveryTokenizer|FirstRefusalOfACommand|GoldenTranscripts|ReopenedSession

# Packages whose kernels the tag noasm replaces, and those that hand them rows of every layout.
NOASM_PACKAGES ?= ./exec/calib ./exec/recurrent ./exec/weights ./hetero/cpu ./internal/threadpool ./kv/... ./quant/... ./store/crc ./store/gcm

# Tests of passes and of the library whose answers follow from the kernels. Storage, memory and faults
# are the same with portable kernels, and take long with them.
NOASM_EXEC    ?= MatchThe|KVFormats|PackedWeights|LogitsDoNotDepend|DecodeAllocates|PlainPass|W8A8|Recurrent|Latent
NOASM_LIBRARY ?= Demo|Golden|Logits|Perplexity|Fork
# NOASM_PACKAGES compare the kernels of each format, so a few models suffice.
NOASM_EXEC_SKIP ?= MatchThePeers|ColdLogits|ColdDecode|SharedDecode|GGUFExports
NOASM_STORAGE ?= SurvivesCrashes|EveryFaultIs|FrequentBeats|LookupReadError|^TestImport|PacksKeepTheMetadata
NOASM_SKIP    ?= ForksAtTheSameTime|DemoNotes|ContextOnFlash|EveryRefusedRequest|Flipped|ReportsLeave

# Packages that use the NPU device, which needs the tag npu.
NPU_PACKAGES ?= ./hetero/onnx/... ./hetero/devices ./hetero/solve ./exec/split

# Packages that use GPUs, which need the tag gpu.
GPU_PACKAGES ?= ./hetero/opencl ./hetero/devices ./hetero/solve ./exec/gpupass ./exec/split

# Splits with devices that need no driver and that make test runs.
SPLITS_WITHOUT_DRIVER ?= HostRowsAreStreamed/.*/.*/(simulated|cores)|Split/cpu.cpu

# Tests on emulated arm64. The emulator can lose the signals with which Go preempts goroutines.
ARM64_TEST = $(TESTREPORT) GOARCH=arm64 GODEBUG=asyncpreemptoff=1 -timeout 30m -vet=off

# The prompt of testarm64. The answer must be the same as on this processor.
QUESTION := What is the capital of France?

# The build makes one static binary, needs no C compiler, and produces the same
# bytes in any directory.
BUILD := CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w"
TOOLS := bin/tools

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/llmrun
	$(BUILD) -o bin/ ./cmd/llmrun

.PHONY: lab
lab: ## build bin/llmlab, the laboratory
	$(BUILD) -o bin/ ./cmd/llmlab

.PHONY: demo
demo: build ## build, then tell a story, chat, and answer from a note
	@scripts/demo.sh bin/llmrun

.PHONY: test
test: ## run all tests, then report how many passed, failed and were skipped, and why
	@$(TESTREPORT) -timeout 20m ./...

.PHONY: testmeasured
testmeasured: ## run the tests that measure this machine, one at a time
	@$(TESTREPORT) LLMRUN_TEST_MEASURED=1 -timeout 20m -vet=off -p 1 -count=1 -run '^TestMeasured' $(MEASURED_PACKAGES)

.PHONY: soak
soak: ## load a server with sound, cancelled, malformed, oversized and slow requests for 30 minutes (Linux)
	@LLMRUN_TEST_MEASURED=1 LLMRUN_TEST_SOAK=30m $(GO) test -timeout 45m -vet=off -count=1 -v -run '^TestMeasuredServeSoak$$' ./cmd/llmrun

.PHONY: testsweep
testsweep: ## run the tests that make every step fail, with all steps and many random options
	@$(TESTREPORT) LLMRUN_TEST_SWEEP=1 -timeout 30m -vet=off -run '$(SWEEP)' . ./exec ./cmd/llmrun

.PHONY: testnoasm testnoasm-packages testnoasm-exec testnoasm-library
testnoasm: ## run the tests with the portable kernels
	$(SIDE_BY_SIDE) testnoasm-library testnoasm-packages testnoasm-exec
testnoasm-packages:
	@$(TESTREPORT) -tags noasm -short -timeout 20m -vet=off -skip '$(NOASM_STORAGE)' $(NOASM_PACKAGES)
testnoasm-exec:
	@$(TESTREPORT) -tags noasm -short -timeout 20m -vet=off -run '$(NOASM_EXEC)' -skip '$(NOASM_EXEC_SKIP)' ./exec ./exec/arch ./exec/modelfile
testnoasm-library:
	@$(TESTREPORT) -tags noasm -short -timeout 20m -vet=off -run '$(NOASM_LIBRARY)' -skip '$(NOASM_SKIP)' .

.PHONY: testrace testrace-packages testrace-library testrace-exec testrace-command
testrace: ## run the tests under the race detector (needs a C compiler)
	$(SIDE_BY_SIDE) testrace-library testrace-packages testrace-exec testrace-command
testrace-packages:
	@$(TESTREPORT) CGO_ENABLED=1 -race -short -timeout 30m -vet=off -skip '$(RACE_SKIP)' $(RACE_PACKAGES)
testrace-library:
	@$(TESTREPORT) CGO_ENABLED=1 -race -short -timeout 30m -vet=off -skip '$(RACE_SKIP)' -run '$(RACE_LIBRARY)' .
testrace-exec:
	@$(TESTREPORT) CGO_ENABLED=1 -race -short -timeout 30m -vet=off -skip '$(RACE_SKIP)' -run '$(RACE_EXEC)' ./exec ./exec/modelfile
testrace-command:
	@$(TESTREPORT) CGO_ENABLED=1 -race -short -timeout 30m -vet=off -run '$(RACE_COMMAND)' ./cmd/llmrun

.PHONY: testnpu testnpu-packages testnpu-splits
testnpu: ## run the tests of the NPU device on ONNX Runtime's CPU provider (needs npm)
	@scripts/onnxruntime.sh >/dev/null
	$(SIDE_BY_SIDE) testnpu-splits testnpu-packages
testnpu-packages:
	@$(TESTREPORT) LLMRUN_ONNXRUNTIME="$$(scripts/onnxruntime.sh)" CGO_ENABLED=0 -tags npu -timeout 30m -vet=off $(NPU_PACKAGES)
testnpu-splits:
	@$(TESTREPORT) LLMRUN_ONNXRUNTIME="$$(scripts/onnxruntime.sh)" CGO_ENABLED=0 -tags npu -timeout 30m -vet=off -run Split -skip '$(SPLITS_WITHOUT_DRIVER)' ./exec .

.PHONY: test-clients
test-clients: build ## try the server with clients that others have written (needs npm)
	@scripts/clients.sh test bin/llmrun

.PHONY: test-schemas
test-schemas: build ## generate 1 000 answers within schemas, which ajv validates, and compare with JSON-Schema-Test-Suite (needs npm)
	@scripts/schema-suite.sh "$(GO)"
	@scripts/clients.sh answers bin/llmrun

.PHONY: worker
worker: ## build bin/llmworker, which shares summaries among machines
	cd worker && $(BUILD) -o ../bin/llmworker .

.PHONY: test-worker
test-worker: ## vet and test the worker on a NATS server in its tests
	cd worker && $(GO) vet ./... && $(GO) test -timeout 15m -count=1 ./...

.PHONY: testgpu testgpu-packages testgpu-library
testgpu: ## run the tests of GPUs on any installed OpenCL driver (Debian, Ubuntu: apt-get install pocl-opencl-icd ocl-icd-libopencl1)
	$(SIDE_BY_SIDE) testgpu-library testgpu-packages
testgpu-packages:
	@$(TESTREPORT) CGO_ENABLED=0 -tags gpu -timeout 30m -vet=off $(GPU_PACKAGES)
testgpu-library:
	@$(TESTREPORT) CGO_ENABLED=0 -tags gpu -timeout 30m -vet=off -run 'GPU|Split' -skip '$(SPLITS_WITHOUT_DRIVER)' . ./exec

.PHONY: testvnni
testvnni: ## run the kernels of AVX-VNNI in the encoding of AVX-512 (skips them without AVX-512 VNNI)
	@$(TESTREPORT) -tags vnni -asmflags=-D=AVX512VL_VNNI -timeout 20m -vet=off -run 'Path|Extreme|MatchesTwin' ./quant ./quant/tiled

# Every processor runs the kernels that it has, so that one with an instruction that it lacks fails. What they
# compute is compared with the portable kernels; these are compared with floats, and packed rows with their
# definition, once. -short compares each format in a third of the sizes.
ARM64_SAME ?= MatchesFloats|MatchFloats|IsLossless|AreLossless|MatchTheDefinition

.PHONY: testarm64 testarm64-max testarm64-a76 testarm64-a72 testarm64-answer
testarm64: build ## run the kernel tests and one answer on emulated arm64 (needs qemu)
	@command -v $(QEMU) >/dev/null || { \
		echo "$(QEMU) not found: install qemu-user-static (Debian, Ubuntu: apt-get install qemu-user-static)" >&2; exit 1; }
	$(SIDE_BY_SIDE) testarm64-max testarm64-a76 testarm64-a72 testarm64-answer
testarm64-max:
	@$(ARM64_TEST) -exec '$(QEMU) -cpu max' ./quant/... ./store/crc
testarm64-a76: # has dot-product instructions, but no matrix instructions
	@$(ARM64_TEST) -exec '$(QEMU) -cpu cortex-a76' -short -skip '$(ARM64_SAME)' ./quant/tiled
testarm64-a72: # no dot products
	@$(ARM64_TEST) -exec '$(QEMU) -cpu cortex-a72' -short -skip '$(ARM64_SAME)' ./quant/tiled
testarm64-answer:
	GOARCH=arm64 $(BUILD) -o bin/arm64/ ./cmd/llmrun
	bin/llmrun run -q --temp 0 -p '$(QUESTION)' > bin/arm64/expected.txt
	GODEBUG=asyncpreemptoff=1 $(QEMU) -cpu max bin/arm64/llmrun run -q --temp 0 -p '$(QUESTION)' | tee bin/arm64/got.txt
	cmp bin/arm64/expected.txt bin/arm64/got.txt
	sh scripts/phone-bench.sh --check bin/llmrun
	GODEBUG=asyncpreemptoff=1 RUN='$(QEMU) -cpu max' sh scripts/phone-bench.sh --check bin/arm64/llmrun

.PHONY: count-arm64
count-arm64: build ## count instructions on emulated arm64 beside llama.cpp's (needs qemu-user, a cross compiler and npm)
	@scripts/arm64-instructions.sh bin/llmrun

.PHONY: lint
lint: tools ## check format, vet every platform, run the linter
	scripts/lint.sh $(TOOLS)

.PHONY: generate-check
generate-check: ## fail if generated assembly or the table of kernels is stale
	$(GO) run ./quant/internal/asmgen -check -dir quant
	$(GO) run ./quant/internal/kerneltable -check

.PHONY: fmt
fmt: tools ## format the Go files
	$(TOOLS)/gofumpt -w .

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME each
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## run the benchmarks that match BENCH
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

.PHONY: accuracy
accuracy: build ## print the perplexity that quantization adds on the bundled model
	@scripts/accuracy.sh bin/llmrun

.PHONY: recall
recall: lab ## ask the bundled model about facts in contexts of 4K to 32K tokens, for every KV format (half an hour on 2 processors; resumable)
	@bzcat testdata/demo/long_text.txt.bz2 | bin/llmlab recall -f - --jobs $(JOBS) --threads 2 --results bin/recall.jsonl

.PHONY: bench-compare
bench-compare: tools ## compare the benchmarks that match BENCH with those of commit BASE
	scripts/bench-compare.sh $(TOOLS)/benchstat $(BASE) '$(BENCH)'

.PHONY: bench-peers
bench-peers: build ## compare with llama.cpp on models of random weights (needs node)
	@scripts/bench-peers.sh bin/llmrun

.PHONY: bench-budget
bench-budget: build ## compare with llama.cpp in memory that is smaller than the model (needs root)
	@scripts/bench-budget.sh bin/llmrun

.PHONY: cross
cross: ## build for every supported system into dist/
	scripts/cross.sh dist

.PHONY: release
release: ## build and pack every supported system into dist/release/, with an SBOM and sums
	scripts/release.sh dist

.PHONY: release-check
release-check: ## build and pack one system in two directories, and compare every byte
	scripts/release-check.sh

.PHONY: tools
tools: $(TOOLS)/.built

# Without -trimpath and cgo, the tools share the compiled standard library with the
# packages that the linter reads.
$(TOOLS)/.built: tools/go.mod tools/go.sum $(wildcard tools/lint/*.go)
	mkdir -p $(TOOLS)
	cd tools && CGO_ENABLED=0 $(GO) build -ldflags "-s -w" -o ../$(TOOLS)/ tool ./lint
	touch $@

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist
