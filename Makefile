PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help install demo test check clean

help:
	@echo "make demo     install, then walk the road from raw text to a served translation"
	@echo "make test     install, then run all tests"
	@echo "make check    lint and type-check"
	@echo "make clean    remove the environment and the demo's run"

install: $(INSTALLED)

$(INSTALLED): setup.py
	@echo "Installing into $(VENV) (about 3 GB with TensorFlow)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[serving,fonts,imagenet,dev]'
	touch $@

demo: $(INSTALLED)
	PATH="$(CURDIR)/$(BIN):$$PATH" bash demo.sh

test: $(INSTALLED)
	# In parts, because a process that has run all of them holds gigabytes of graphs.
	$(BIN)/python -m pytest tests/models
	$(BIN)/python -m pytest tests/pipeline
	$(BIN)/python -m pytest tests --ignore=tests/models --ignore=tests/pipeline

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) runs/demo
