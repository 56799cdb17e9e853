"""Beam's runners by the names that an experiment gives them."""
