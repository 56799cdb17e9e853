"""Folders that run an export in the real TensorFlow Serving: one member a target."""
