"""Decoders: the words so far and a memory give the features of the next word."""
