"""Searches for the best output, each inside one graph."""
