# The two commands are `make book` and `make test`; `make help` lists the others. Each first makes
# a virtual environment with the pinned requirements in .venv, once.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8000
DIR ?= chapters

# A file's tests share what they need, such as a server: they stay in one process.
PYTEST = $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile

INSTALLED := $(VENV)/.book-installed
TEST_INSTALLED := $(VENV)/.test-installed

.DEFAULT_GOAL := help
.PHONY: help book pdf serve lab exercises experiments test check bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

book: $(INSTALLED) ## run the notebooks and build the book, without a warning
	$(BIN)/jupyter-book build . --all -W -n --keep-going
	@echo "Open _build/html/index.html in a browser, or run: make serve"

pdf: $(TEST_INSTALLED) book ## print the book to _build/book.pdf; SOLUTIONS=1 unfolds solutions
	$(BIN)/python -m normbook.pdf _build/html _build/book.pdf $(if $(SOLUTIONS),--solutions)

serve: book ## build the book and serve it on this machine
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

lab: $(INSTALLED) ## open the chapters in JupyterLab
	$(BIN)/jupyter lab $(DIR)

exercises: $(INSTALLED) ## write the exercises without their solutions to _build/exercises
	$(BIN)/python -m normbook.student _build/exercises chapters/exercises.ipynb

experiments: $(INSTALLED) ## run the experiments whose records are missing or out of date
	$(BIN)/python -m normbook.experiments

test: $(TEST_INSTALLED) ## run all tests; they build the book, too
	$(PYTEST)

check: $(TEST_INSTALLED) ## run the quick tests: no notebook, no built page, no browser
	$(PYTEST) -m "not slow"

bench: $(TEST_INSTALLED) ## measure speed: the layers, the build, a widget, a page
	$(BIN)/python tests/bench.py
	$(BIN)/python tests/bench_build.py
	$(BIN)/python tests/bench_widget.py
	$(BIN)/python tests/bench_pages.py

clean: ## remove what was built; .venv stays
	rm -rf _build .pytest_cache .ruff_cache .hypothesis

$(INSTALLED): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "The book needs Python 3.11 or newer. Name one: make book PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -r requirements.txt
	@touch $@

$(TEST_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install -e ".[test]"
	@touch $@
