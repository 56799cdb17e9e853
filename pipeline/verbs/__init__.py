"""Verbs of the command `seqloom`, a file for each kind; `pipeline/cli.py` puts them together."""
