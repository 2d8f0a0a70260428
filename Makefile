# Everything runs in a virtual environment that these targets make themselves.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

# The demo asks for the colors of picture A with the brushwork of picture B: files, or keys of indexed pictures.
# For your own: make demo DATA=folder A=one.jpg B=other.jpg
DATA ?= demo
ifeq ($(DATA),demo)
A ?= 0190-tree-autumn-pointillism.jpg
B ?= 0104-sailing-boat-sea-oil-strokes.jpg
OUT ?= demo/index
PAGE ?= demo/results.html
else
OUT ?= demo/own-index
PAGE ?= demo/own-results.html
endif

.PHONY: demo app test test-slow lint types bench clean

demo: $(VENV)/.installed
	@test -n "$(A)" -a -n "$(B)" || { echo 'error: with DATA=... say also A=one.jpg (its colors) and B=other.jpg (its brushwork)'; exit 1; }
	$(BIN)/tpips-index build --data "$(DATA)" --aspect "color palette" --aspect brushwork --out "$(OUT)"
	$(BIN)/tpips-index query "$(OUT)" --term "$(A):color palette:1.0" --term "$(B):brushwork:0.7" -k 24 --html "$(PAGE)"

app: demo $(VENV)/.installed-app
	$(BIN)/tpips-app "$(OUT)"

test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

test-slow: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.exact_scan
	$(BIN)/python benchmarks/shared_prefix.py --quick
	$(BIN)/python -m benchmarks.composition --quick
	$(BIN)/python -m benchmarks.lists --quick
	$(BIN)/python benchmarks/training_step.py --quick
	$(BIN)/python -m benchmarks.serving --quick

$(VENV)/.created:
	$(PYTHON) -m venv "$(VENV)"
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.installed-app: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[app]"
	touch $@

$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[dev,train,serve,app]"
	touch $@ $(VENV)/.installed $(VENV)/.installed-app

clean:
	rm -rf demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
