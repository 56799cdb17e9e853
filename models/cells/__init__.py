"""Recurrent cells, a family a module."""
