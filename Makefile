# Every target sets up what it needs first (python3 -m setup, quick when nothing is missing).

# Python of the environment where there is one: it needs no other.
PYTHON ?= $(shell test -x .venv/bin/python && echo .venv/bin/python || echo python3)
LANES ?= 8
SIM ?= verilator
RUN := .venv/bin/python
BUILD := $(or $(BERT2RTL_BUILD),build)

# No variable of this make reaches a test, which may run make itself. The tests start hundreds of
# Pythons, which keep their bytecode for each other.
PURE := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u PYTHONDONTWRITEBYTECODE $(RUN)
TESTS := $(PURE) -m pytest -n 2 --dist worksteal
unexport PYTHON LANES SIM UNIT WAVES ARGS

# A review reaches the command as it was given.
ifneq ($(origin REVIEW),undefined)
sim: export override REVIEW := $(value REVIEW)
sim: review := --review="$$REVIEW"
unexport REVIEW
endif

.DEFAULT_GOAL := help
.PHONY: help sim test lowest synth bench regress calibrate figures board-sim docs setup lint clean distclean

help:  ## Show the targets and their variables
	@echo "bert2rtl: from a BERT checkpoint to verified Verilog"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Variables: REVIEW='text'  LANES=4|8|16|32|64  SIM=verilator|icarus  UNIT=name  WAVES=1"
	@echo "           BERT2RTL_BUILD=/folder instead of build/"
	@echo "           ARGS='...' goes to the command as it stands  PYTHON=/path/to/python3"
	@echo "Example:   make sim REVIEW='That movie was terrible!' LANES=8"

setup-%:
	@$(PYTHON) -m setup $*

setup: setup-test  ## Install everything that the other targets need

sim: setup-sim  ## A review through checkpoint, golden model and simulated Verilog
	@$(RUN) -m sim.run --lanes $(LANES) --simulator $(SIM) \
	    $(if $(UNIT),--unit $(UNIT)) $(if $(filter-out 0,$(WAVES)),--waves) $(review) $(ARGS)

test: setup-test lint  ## Lint, types and the tests that a developer waits for
	@$(PURE) -m tests.builds
	@$(TESTS) -m "not slow" $(ARGS)

lint: setup-test
	@$(RUN) -m ruff check .
	@$(RUN) -m mypy
	@.venv/bin/lint-imports --no-logo --no-cache | sed -n '/BROKEN/,$$p;/^Contracts:/p'
	@.venv/bin/vermin -qq --no-tips --target=3.8- --violations driver/*.py

synth: setup-synth  ## Resources and Fmax of UNIT on an ECP5-85F; ARGS='--target xilinx7', or osu018: standard cells
	@$(RUN) -m sim.synth $(or $(UNIT),softmax) --lanes $(LANES) $(ARGS)

calibrate: setup-sim  ## Quantize the shipped checkpoint into build/
	@$(RUN) -m quant.calibrate $(ARGS)

bench: setup-train setup-sim  ## Speed of golden beside Hugging Face, cycles of the Verilog, texts a second, BERT-Base
	@$(RUN) -m train.bench $(ARGS)
	@$(RUN) -m sim.cycles --lanes 4,8,16,32 --tokens 16,64,128,512 --whole-last-layer --play
	@$(RUN) -m sim.cycles texts --data rotten-tomatoes --lanes 8,16,32,64
	@$(RUN) -m sim.cycles --shape 12,768,3072 --lanes 32,64

board-sim: setup-synth  ## A review on the SoC of a ULX3S in LiteX's simulation, by the host program of a board
	@$(RUN) -m boards.simulation --lanes $(LANES) $(review) $(ARGS)

regress: setup-test setup-synth  ## All other tests, 222,000 fuzz cases, mutants, BERT-Base, many texts: for a night
	@$(TESTS) -m slow
	@$(RUN) -m verify.fuzz --cases 100000
	@$(RUN) -m verify.fuzz --cases 2000 --lanes 4 --coverage $(BUILD)/coverage.dat
	@for option in --precise "--bias-heads 2" --gated "--rotary-pairs 8"; do \
	    $(RUN) -m verify.fuzz --cases 20000 --lanes 4 $$option || exit; done
	@$(RUN) -m verify.mutate requantize activation matmul reciprocal --count 300
	@$(RUN) -m verify.mutate softmax position_bias layernorm rsqrt --count 200
	@for columns in 4 16; do \
	    $(RUN) -m verify.mutate accelerator --columns $$columns --count 60 || exit; done
	@for last in "" --whole-last-layer; do \
	    $(RUN) -m sim.cycles --shape 12,768,3072 --lanes 32 --play $$last || exit; done
	@$(RUN) -m sim.regress $(ARGS)
	@$(MAKE) lowest

lowest: setup-test  ## Tests without simulations on the lowest versions that pyproject.toml allows
	@rm -rf $(BUILD)/lowest
	@.venv/bin/uv venv -q -p $(RUN) $(BUILD)/lowest
	@.venv/bin/uv pip install -q -p $(BUILD)/lowest/bin/python --resolution lowest-direct \
	    -e '.[quant,rtl,sim,parquet,fast]' pytest==9.2.0 pytest-timeout==2.4.0
	@$(BUILD)/lowest/bin/python -m pytest -q -m "not slow" \
	    tests/golden tests/rtl/test_registers.py tests/rtl/test_parameters.py tests/quant/test_calibrate.py

figures: setup-sim  ## docs/results.md from docs/measurements.toml
	@$(RUN) -m docs.figures

docs: setup-docs  ## The documentation as a site, build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --site-dir $(BUILD)/site
	@echo "$(BUILD)/site/index.html"

# A model took minutes to calibrate, or hours to train: what holds one is its user's to remove.
clean:  ## Remove what was generated, but no model; a folder that BERT2RTL_BUILD names stays
	@rm -rf .pytest_cache .mypy_cache .ruff_cache
	@for entry in $(wildcard build/* build/.[!.]*); do \
	    if [ "$$(find $$entry -name quantized.json -o -name '*.safetensors' | head -1)" ]; \
	    then echo "kept: $$entry holds a model; remove it yourself"; \
	    else rm -rf $$entry; fi; done
	@! test -d build || rmdir --ignore-fail-on-non-empty build

distclean: clean  ## Also remove the virtual environment
	rm -rf .venv
