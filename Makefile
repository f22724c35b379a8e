# One place for the commands a person needs; each works on a fresh Debian 12 with Python 3.11, pip and venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test lint soak bench lock clean

setup: $(STAMP)

# A virtual environment from the hashed lock, then the package itself (editable, no further downloads).
$(STAMP): pyproject.toml requirements.txt requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements-dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	$(PYTHON) -c "import pathlib; pathlib.Path('$(STAMP)').touch()"

demo: setup
	$(BIN)/ql up examples/first.yaml --data .demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup lint
	$(BIN)/pytest -n auto

soak: setup
	$(BIN)/pytest tests/soak -x -q

bench: setup
	$(BIN)/python -m bench

# For maintainers: refresh the hashed exports from pyproject.toml (needs uv).
lock:
	uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
	  pyproject.toml -o requirements.txt
	uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
	  --extra dev pyproject.toml requirements-build.in -o requirements-dev.txt

clean:
	rm -rf $(VENV) .demo
