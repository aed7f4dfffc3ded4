# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# MindSpore's convolutions are 10 to 100 times slower without it on AVX-512 machines; 4: its errors come as ours.
export ONEDNN_MAX_CPU_ISA ?= AVX2
export GLOG_v ?= 4
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests write no bytecode, and start hundreds of processes that read it.
COMPILE := $(BIN)/python -m compileall -q -j 2 -x '/(\.venv|out|build|benchmarks|tests|docs)[^/]*/' .

# pip compiles what it installs on one core, for a minute; all cores do it afterwards, and one while pip works.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile
# Without the libraries' own tests, a sixth of it; some files are templates, which do not compile.
COMPILE_LIBRARIES := $(BIN)/python -W ignore -m compileall -qq -x 'site-packages/.*/tests/' $(VENV)/lib

.PHONY: help demo browser docs picture test test-fast test-versions dist dist-test check format lint types bench large corpus-torch corpus-mindspore corpus-mxnet mutants fuzz fuzz-programs kills optimisers certificates golden clean conformance

help:  ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(READY): pyproject.toml tests/constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "regraft needs Python 3.11 or 3.12: make PYTHON=/path/to/python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(INSTALL) -c tests/constraints.txt "torch==2.13.0"
	@$(COMPILE_LIBRARIES) & $(INSTALL) -c tests/constraints.txt -e ".[mindspore,sweep,mcp]" --group dev && wait
	$(INSTALL) --target $(VENV)/numpy2 --upgrade "numpy>=2"  # for one smoke test
	$(INSTALL) --target $(VENV)/torchvision --no-deps "torchvision==0.28.0"  # for pipelines; beside, as its C++ part is of another build of torch
	@$(COMPILE_LIBRARIES) -j 0 || true
	@touch $@

demo: $(READY)  ## set everything up, then rewrite a real model for MindSpore and ONNX and prove both equal
	PATH="$(abspath $(BIN)):$$PATH" bash examples/demo.sh

docs: $(READY)  ## the site in both languages: out/site/index.html
	$(BIN)/python docs/build.py out/site

picture: $(READY)  ## the pictures of a report in both READMEs, anew
	$(BIN)/python docs/picture.py

browser:  ## install Debian's chromium and a Chinese font (as root), which the tests of pages skip without
	@command -v chromium >/dev/null || apt-get install -y --no-install-recommends chromium fonts-noto-cjk

test: $(READY)  ## set everything up, then run every test
	@$(COMPILE)
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-fast: $(READY)  ## the tests that take seconds
	@$(COMPILE)
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow"

test-versions:  ## a smoke suite in a table of environments, from the oldest to the newest versions: ONLY="newest oldest"
	$(PYTHON) tests/tools/versions.py .venv-versions $(ONLY)

dist: $(READY)  ## the wheel and the sdist, built twice, byte by byte the same: out/dist
	$(BIN)/python tests/tools/dist.py out/dist

dist-test: $(READY)  ## the wheel in empty environments without the checkout: its commands, and each extra
	$(BIN)/python tests/tools/dist.py out/dist --test

check: format lint types test-fast  ## format, lint, types, fast tests

format: $(READY)
	$(BIN)/ruff format .

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

golden: $(READY)  ## rewrite the golden pages after a deliberate change
	$(BIN)/python -m pytest -n 2 --update-goldens tests/passes tests/backends tests/frontends/torch_module

bench: $(READY)  ## ratios to what a user would run instead, kept beside earlier commits': SUBJECTS="export mindspore"
	$(BIN)/python benchmarks/run.py $(or $(SUBJECTS),export passes) --store

# A sweep of a suite ends with 1 where cases are not equal: the table comes then, too. ONLY=REGEX, SAMPLE=cases of each kind.
SWEEP = $(BIN)/regraft sweep benchmarks/suites/$(1).toml -o out/$(1) --only "$(ONLY)" $(if $(SAMPLE),--sample $(SAMPLE)) || test $$? -eq 1

large: $(READY)  ## a decoder larger than its memory, converted and proved, beside a copy of it: GB=30 HELD=4 (of 1e9 bytes), on TMPDIR
	$(BIN)/python benchmarks/large.py --gigabytes $(or $(GB),3) --held $(or $(HELD),1)

corpus-torch: $(READY)  ## how many real models convert: CORPORA=checkout of the corpora ONLY=REGEX SAMPLE=cases of each kind
	CORPORA="$(abspath $(CORPORA))" $(call SWEEP,torch)
	$(BIN)/python benchmarks/suites/corpus_torch.py out/torch/rows.jsonl

corpus-mindspore: $(READY)  ## the same of MindSpore Cells (installs mindcv in a folder)
	test -d out/mindcv || $(BIN)/python -m pip install --quiet --no-deps --target out/mindcv mindcv==0.3.0 tqdm pyyaml
	CORPORA="$(abspath $(CORPORA))" PYTHONPATH="$(abspath out/mindcv)" $(call SWEEP,mindspore)
	$(BIN)/python benchmarks/suites/corpus_mindspore.py out/mindspore/rows.jsonl

corpus-mxnet: $(READY)  ## the same of MXNet symbols
	CORPORA="$(abspath $(CORPORA))" $(call SWEEP,mxnet)
	$(BIN)/python benchmarks/suites/corpus_mxnet.py out/mxnet/rows.jsonl

optimisers: $(READY)  ## rewritten ONNX files beside onnxslim's and onnxsim's (installs both in a folder)
	test -d out/optimisers || $(BIN)/python -m pip install --quiet --no-deps --target out/optimisers onnxslim==0.1.98 onnxsim==0.8.1 colorama
	PYTHONPATH=out/optimisers $(BIN)/python benchmarks/optimisers.py --store

certificates: $(READY)  ## the cost of checking a certificate beside a forward (BERT-base where transformers is installed)
	$(BIN)/python benchmarks/certificates.py --store

conformance: $(READY)  ## ONNX's own test suite in every mode and beside onnx2torch (installed in a folder), and its page in docs/: ONLY=REGEX
	test -d out/onnx2torch || $(BIN)/python -m pip install --quiet --no-deps --target out/onnx2torch onnx2torch==1.5.15
	PYTHONPATH="$(abspath out/onnx2torch)" $(call SWEEP,conformance)
	$(BIN)/python benchmarks/suites/conformance.py out/conformance/rows.jsonl
	$(if $(ONLY)$(SAMPLE),,$(BIN)/python benchmarks/suites/conformance_page.py out/conformance/rows.jsonl)

mutants: $(READY)  ## plant faults in right targets, and rewrite them rightly: which the verification tells apart
	$(BIN)/python -m regraft.benchmarks.mutation --each $(or $(EACH),1) --store
	$(BIN)/python -m regraft.benchmarks.mutation.right --seeds $(or $(SEEDS),5) --store

fuzz: $(READY)  ## mutated inputs for every reader until stopped: SECONDS=60 SEED=1 TARGETS=symbol,params; failures in out/fuzz
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),0) $(if $(SEED),--seed $(SEED)) --targets "$(TARGETS)"

kills: $(READY)  ## kill rewrites over existing output at random moments, and look what is left: KILLS=200
	$(BIN)/python benchmarks/kills.py --kills $(or $(KILLS),200)

fuzz-programs: $(READY)  ## random programs against their framework until stopped: FRONTEND=torch SECONDS=60 SEED=1
	$(BIN)/python -m tests.fuzz.programs --frontend $(or $(FRONTEND),torch) --seconds $(or $(SECONDS),0) $(if $(SEED),--seed $(SEED))

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .venv-* .pytest_cache .ruff_cache build *.egg-info out
