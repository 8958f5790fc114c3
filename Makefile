# The two commands are `make book` and `make test`; `make help` lists the others. Each first makes
# a virtual environment with the pinned requirements in .venv, once. With LOCKED=1, these and all
# that they require are the very files whose hashes are in requirements.lock.

PYTHON ?= python3
VENV ?= .venv
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)
PORT ?= 8000
DIR ?= chapters

# The build of PyTorch: a value of uv's --torch-backend; with auto, uv looks for a GPU.
TORCH_BACKEND ?= cpu
TORCH ?= $(shell sed -n 's/^torch==//p' requirements.txt)
UV := $(shell grep '^uv==' requirements.txt)

# uv shows how far it is, and takes seconds where pip takes minutes. But it doesn't read pip's
# configuration: where that alone leads to packages, to a mirror of PyPI say, pip installs them.
UV_INSTALL = $(BIN)/uv pip install --python $(BIN)/python
PIP_INSTALL = $(BIN)/python -m pip install --no-compile
install = $(UV_INSTALL) $(1) || $(PIP_INSTALL) $(1)

# On Linux, PyPI's PyTorch brings gigabytes of CUDA. So PyTorch's own index is asked first; where it
# can't be reached within seconds, pip takes PyPI's, or what its configuration has instead. The
# first line finds uv installed, without a network: all that it does is refuse an unknown backend.
define install_torch
$(UV_INSTALL) --quiet --torch-backend=$(TORCH_BACKEND) uv
@if UV_HTTP_TIMEOUT=5 UV_HTTP_RETRIES=0 \
  $(UV_INSTALL) --quiet --dry-run --no-deps --torch-backend=$(TORCH_BACKEND) torch; \
then set -x; $(UV_INSTALL) --torch-backend=$(TORCH_BACKEND) $(1) torch$(addprefix ==,$(TORCH)); \
else echo "PyTorch's own index didn't help, so pip takes PyTorch from where it takes packages."; \
  set -x; $(PIP_INSTALL) $(1) torch$(addprefix ==,$(TORCH)); fi
endef

# A file's tests share what they need, such as a server: they stay in one process.
PYTEST = $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile

BUILD = $(BIN)/jupyter-book build . --all -W -n --keep-going
LINKS := _build/links
INSTALLED := $(VENV)/.book-installed
TEST_INSTALLED := $(VENV)/.test-installed
UNFINISHED := $(VENV)/.unfinished
TOOLS := .venv-tools/$(SCRIPTS)
TOOLS_INSTALLED := .venv-tools/.installed

.DEFAULT_GOAL := help
.PHONY: help book pdf serve links lab exercises experiments test check lock audit test-oldest test-newest bench mutants clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

book: $(INSTALLED) ## run the notebooks and build the book, without a warning
	$(BUILD)
	@echo "Open _build/html/index.html in a browser, or run: make serve"

pdf: $(TEST_INSTALLED) book ## print the book to _build/book.pdf; SOLUTIONS=1 unfolds solutions
	$(BIN)/python -m normbook.build.pdf _build/html _build/book.pdf $(if $(SOLUTIONS),--solutions)

serve: book ## build the book and serve it on this machine
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

links: $(INSTALLED) ## look whether the links to other sites still lead somewhere; takes a network
	$(BIN)/jupyter-book build . --builder linkcheck --path-output $(LINKS)
	@echo "All are listed in $(LINKS)/_build/html/output.txt"

lab: $(INSTALLED) ## open the chapters in JupyterLab
	$(BIN)/jupyter lab $(DIR)

exercises: $(INSTALLED) ## write the exercises without their solutions to _build/exercises
	$(BIN)/python -m normbook.build.strip_solutions _build/exercises chapters/exercises.ipynb

experiments: $(INSTALLED) ## run the experiments whose records are missing or out of date
	$(BIN)/python -m normbook.experiments

test: $(TEST_INSTALLED) ## run all tests; they build the book, too
	$(PYTEST)

check: $(TEST_INSTALLED) ## run the quick tests: no notebook, no built page, no browser
	$(PYTEST) -m "not slow"

bench: $(TEST_INSTALLED) ## measure the layers, the build, a widget and a page, against their peers
	$(BIN)/python tests/bench.py

test-oldest: ## run the quick tests with the lowest versions that pyproject.toml allows
test-newest: ## run them and build the book with the newest versions, of Jupyter Book with its last 1.x
test-oldest: RESOLUTION := lowest-direct
test-newest: RESOLUTION := highest
test-newest: UNPIN := s/^jupyter-book==.*/jupyter-book<2/; s/==[^;]*//
test-newest: TORCH :=
test-oldest test-newest: BIN = .venv-$*/$(SCRIPTS)
test-oldest test-newest: test-%:
	$(PYTHON) -m venv --clear .venv-$*
	$(BIN)/python -m pip install --quiet $(UV)
	$(call install_torch,--no-deps)
	sed -n '/^# The book/,$$ { $(UNPIN); p; }' requirements.txt >.venv-$*/book.txt
	$(UV_INSTALL) --resolution $(RESOLUTION) -e ".[test]" -r .venv-$*/book.txt
	$(PYTEST) -m "not slow"
	$(if $(UNPIN),$(BUILD) --path-output _build/newest)

lock: $(TOOLS_INSTALLED) ## write requirements.lock anew, after an edit of what it is made from
	$(TOOLS)/uv pip compile --config-file lock.toml --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-package torch --no-emit-package normbook --no-annotate \
	  --no-header --upgrade --extra test --output-file requirements.lock pyproject.toml requirements.txt

audit: $(TOOLS_INSTALLED) ## look up known vulnerabilities of the requirements; takes a network
	@grep '^torch==' requirements.txt >$(TOOLS)/torch.txt
	@for file in requirements.lock $(TOOLS)/torch.txt; do \
	  $(TOOLS)/pip-audit --strict --disable-pip --no-deps -r $$file || { echo "See above: there is a" \
	    "vulnerability, or PyPI's list of them was out of reach, and nothing was looked up."; exit 1; }; \
	done

mutants: $(TEST_INSTALLED) ## change the arithmetic in many ways: do its tests notice? (an hour)
	$(call install,--quiet mutmut==3.8.1)
	mkdir -p _build/mutants/src
	cp -r tests pyproject.toml _build/mutants
	cp -r code/normbook _build/mutants/src
	cd _build/mutants && OMP_NUM_THREADS=1 $(abspath $(BIN))/mutmut run --max-children 1
	cd _build/mutants && $(abspath $(BIN))/mutmut results

clean: ## remove what was built; .venv stays
	rm -rf _build .pytest_cache .ruff_cache .hypothesis

# Of a package that was broken off halfway, pip and uv believe that it is there. So what is left of a
# broken installation is removed, unless the environment was there before and is not make's own.
$(INSTALLED): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "The book needs Python 3.11 or newer. Name one: make book PYTHON=python3.12")'
	@test ! -e $(UNFINISHED) || rm -rf $(VENV)
	@if $(BIN)/python -m pip --version >/dev/null 2>&1; \
	then test ! -e $@ || mv $@ $(UNFINISHED); \
	else $(PYTHON) -m venv $(VENV) && touch $(UNFINISHED); fi
	$(BIN)/python -m pip install $(UV)
	$(call install_torch)
	$(if $(LOCKED),$(call install,--no-deps --require-hashes -r requirements.lock))
	$(call install,-r requirements.txt)
	@rm -f $(UNFINISHED)
	@touch $@

$(TOOLS_INSTALLED): requirements.txt
	$(PYTHON) -m venv --clear .venv-tools
	$(TOOLS)/python -m pip install --quiet $(UV) pip-audit
	@touch $@

$(TEST_INSTALLED): $(INSTALLED)
	@mv $(INSTALLED) $(UNFINISHED)
	$(call install,-e ".[test]")
	@mv $(UNFINISHED) $(INSTALLED)
	@touch $@
