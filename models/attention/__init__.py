"""Attention: kinds over scores, one contract for all."""
