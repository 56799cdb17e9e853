"""Keras layers and models; knows nothing of files, servers or the command line."""
