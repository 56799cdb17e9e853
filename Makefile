PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# A pipe fails with its first part.
SHELL := bash
.SHELLFLAGS := -o pipefail -c

.PHONY: help install demo test test-pipeline test-training test-models test-rest test-serving check check-serving clean

help:
	@echo "make demo     install, then walk the road from raw text to a served translation"
	@echo "make test     install, then run all tests"
	@echo "make check    lint and type-check"
	@echo "make check-serving    load every kind of export under TensorFlow Serving's own release"
	@echo "make clean    remove the environment and the demo's run"

install: $(INSTALLED)

$(INSTALLED): setup.py
	@echo "Installing into $(VENV) (about 3 GB with TensorFlow)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[serving,fonts,imagenet,pictures,video,kubernetes,dev]'
	touch $@

demo: $(INSTALLED)
	PATH="$(CURDIR)/$(BIN):$$PATH" bash demo.sh

# In parts, because a process that has run all of them holds gigabytes of graphs; two at a time,
# because most of a test is one thread's work, and the longest first. A part that fails does not
# keep another from running.
test: $(INSTALLED)
	$(MAKE) --no-print-directory --keep-going --jobs=2 test-training test-pipeline test-rest test-models test-serving

test-models: $(INSTALLED)
	$(BIN)/python -m pytest tests/models 2>&1 | sed -u 's/^/models   | /'

TRAINING := tests/pipeline/train tests/pipeline/tasks tests/pipeline/submit

test-training: $(INSTALLED)
	$(BIN)/python -m pytest $(TRAINING) 2>&1 | sed -u 's/^/training | /'

test-pipeline: $(INSTALLED)
	$(BIN)/python -m pytest tests/pipeline $(TRAINING:%=--ignore=%) 2>&1 | sed -u 's/^/pipeline | /'

test-serving: $(INSTALLED)
	$(BIN)/python -m pytest tests/serving 2>&1 | sed -u 's/^/serving  | /'

test-rest: $(INSTALLED)
	$(BIN)/python -m pytest tests --ignore=tests/models --ignore=tests/pipeline --ignore=tests/serving 2>&1 | sed -u 's/^/rest     | /'

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# TensorFlow Serving 2.20.0 is built with these; they cannot live beside those of setup.py.
SERVED := .venv-serving

$(SERVED)/.installed:
	@echo "Installing into $(SERVED) (about 1.5 GB)"
	$(PYTHON) -m venv $(SERVED)
	$(SERVED)/bin/python -m pip install --quiet --disable-pip-version-check tensorflow==2.20.0 tensorflow-text==2.20.1
	touch $@

check-serving: $(INSTALLED) $(SERVED)/.installed
	$(BIN)/python -m pytest tests/serving/test_export_under_tf220.py

clean:
	rm -rf $(SERVED) $(VENV) runs/demo runs/pictures runs/pictures-corpus
