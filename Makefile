# Every target sets up what it needs first (python3 -m setup, quick when nothing is missing).

# These are said behind `make`: names as short as SIM stand in an environment for something else.
foreign := $(foreach name,PYTHON UNIT LANES SIM WAVES ARGS,\
    $(if $(filter environment%,$(origin $(name))),$(name)))
$(foreach name,$(foreign),$(eval override undefine $(name))\
    $(warning $(name) of the environment is not used here: write it behind make, $(name)=...))

# Python's own variables would let it run other modules, or none of the project's.
unexport $(filter-out PYTHON PYTHONUNBUFFERED PYTHONIOENCODING PYTHONUTF8,$(filter PYTHON%,$(.VARIABLES)))

# Python of the environment where there is one: it needs no other.
PYTHON ?= $(shell test -x .venv/bin/python && echo .venv/bin/python || echo python3)
UNIT ?=
LANES ?= 8
SIM ?= verilator
WAVES ?=
ARGS ?=

RUN := .venv/bin/python
BUILD := $(or $(BERT2RTL_BUILD),build)

# A review reaches the command as it was given: `value` keeps make from expanding what looks like a
# variable or a function in it, the environment keeps the shell from seeing it.
ifneq ($(origin REVIEW),undefined)
override REVIEW := $(value REVIEW)
export REVIEW
review := --review="$$REVIEW"
endif

.DEFAULT_GOAL := help
.PHONY: help sim test thorough lowest synth bench regress calibrate figures board-sim docs setup lint clean distclean \
        setup-quant setup-parquet setup-onnx setup-train setup-sim setup-package setup-docs setup-cluster setup-synth setup-asic setup-litex setup-test

help:  ## Show the targets and their variables
	@echo "bert2rtl: from a BERT checkpoint to verified Verilog"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Variables: REVIEW='text'  LANES=4|8|16|32|64  SIM=verilator|icarus  UNIT=name  WAVES=1"
	@echo "           BERT2RTL_BUILD=/folder instead of build/"
	@echo "           ARGS='...' goes to the command as it stands  PYTHON=/path/to/python3"
	@echo "Example:   make sim REVIEW='That movie was terrible!' LANES=8"
	@printf '%s\n' "Quotes:    make sim REVIEW='It'\\''s \"good\"'   (in single quotes a shell changes nothing)"

setup-quant setup-parquet setup-onnx setup-train setup-sim setup-package setup-docs setup-cluster setup-synth setup-asic setup-litex setup-test: setup-%:
	@$(PYTHON) -m setup $*

setup: setup-test  ## Install everything that the other targets need

sim: setup-sim  ## A review through checkpoint, golden model and simulated Verilog
	@$(RUN) -m sim.run --lanes $(LANES) --simulator $(SIM) \
	    $(if $(UNIT),--unit $(UNIT)) $(if $(filter-out 0,$(WAVES)),--waves) \
	    $(review) $(ARGS)

test: setup-test lint  ## Lint, types and the quick tests: each part once
	@$(RUN) -m pytest -n 2 --dist worksteal -m "not slow and not thorough" $(ARGS)

thorough: setup-test  ## More of the same by other lanes, models, simulators and faults: with `make test` what CI runs
	@$(RUN) -m pytest -n 2 --dist worksteal -m "thorough and not slow" $(ARGS)

lint: setup-test
	@$(RUN) -m ruff check .
	@$(RUN) -m mypy
	@.venv/bin/vermin -qq --no-tips --target=3.8- --violations driver/*.py

synth: setup-synth  ## Resources and Fmax of UNIT on an ECP5-85F; ARGS='--target osu018': standard cells
	@$(RUN) -m sim.synth $(or $(UNIT),softmax) --lanes $(LANES) $(ARGS)

calibrate: setup-quant  ## Quantize the shipped checkpoint into build/
	@$(RUN) -m quant.calibrate $(ARGS)

bench: setup-train setup-sim  ## Speed of golden beside Hugging Face, cycles of the Verilog, texts a second, BERT-Base
	@$(RUN) -m train.bench $(ARGS)
	@$(RUN) -m sim.cycles --lanes 4,8,16,32 --tokens 16,64,128,512 --whole-last-layer --play
	@$(RUN) -m sim.cycles --batch 256 --data rotten-tomatoes --lanes 8,16,32,64
	@$(RUN) -m sim.cycles --shape 12,768,3072 --lanes 32,64

board-sim: setup-litex  ## A review on the SoC of a ULX3S in LiteX's simulation, by the host program of a board
	@$(RUN) -m boards.simulation --lanes $(LANES) $(review) $(ARGS)

regress: setup-test setup-litex  ## All tests but the quick ones, 220,000 fuzz cases, coverage, 2,560 mutants, BERT-Base, many texts: make regress ARGS='--texts 1000'
	@$(RUN) -m pytest -n 2 --dist worksteal -m "slow or thorough"
	@$(RUN) -m verify.fuzz --cases 100000
	@$(RUN) -m verify.fuzz --cases 20000 --lanes 4 --precise
	@$(RUN) -m verify.fuzz --cases 20000 --lanes 4 --bias-heads 2
	@$(RUN) -m verify.fuzz --cases 20000 --lanes 4 --windows
	@$(RUN) -m verify.fuzz --cases 20000 --lanes 4 --rms-norm
	@$(RUN) -m verify.fuzz --cases 20000 --lanes 4 --gated
	@$(RUN) -m verify.fuzz --cases 20000 --lanes 4 --rotary-pairs 8
	@$(RUN) -m verify.coverage --cases 2000 --json $(BUILD)/coverage.json
	@$(RUN) -m verify.mutate requantize activation matmul reciprocal --count 300
	@$(RUN) -m verify.mutate softmax position_bias layernorm rsqrt attention --count 200
	@$(RUN) -m verify.mutate accelerator --count 60
	@$(RUN) -m verify.mutate softmax --windows --count 60 --seed 1
	@$(RUN) -m verify.mutate layernorm --rms-norm --count 60 --seed 1
	@$(RUN) -m verify.mutate attention --windows --count 60 --seed 1
	@$(RUN) -m verify.mutate attention --gated --count 60 --seed 1
	@$(RUN) -m verify.mutate attention --rotary-pairs 10 --count 60 --seed 1
	@$(RUN) -m sim.cycles --shape 12,768,3072 --lanes 32 --play
	@$(RUN) -m sim.cycles --shape 12,768,3072 --lanes 32 --play --whole-last-layer
	@$(RUN) -m sim.regress $(ARGS)
	@$(MAKE) lowest

lowest: setup-test  ## The quick tests without simulations on the lowest versions that pyproject.toml allows
	@rm -rf $(BUILD)/lowest
	@.venv/bin/uv venv -q -p $(RUN) $(BUILD)/lowest
	@.venv/bin/uv pip install -q -p $(BUILD)/lowest/bin/python --resolution lowest-direct \
	    -e '.[quant,rtl,sim,package,parquet,onnx,fast]' pytest==9.2.0 pytest-timeout==2.4.0
	@$(BUILD)/lowest/bin/python -m pytest -q -m "not slow and not thorough and not verilator" \
	    tests/golden tests/rtl/test_registers.py tests/rtl/test_requantize.py tests/quant/test_calibrate.py

figures: setup-sim  ## docs/results.md from docs/measurements.toml; again: make figures ARGS='"cycles*"'
	@$(RUN) -m docs.figures $(ARGS)

docs: setup-docs  ## The documentation as a site, build/site/index.html; a warning is an error
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
