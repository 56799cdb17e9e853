"""The visual answering model in NumPy, a row at a time."""

import numpy as np

from tests.models.reference.attention import SCORES, softmax
from tests.models.reference.losses import project
from tests.models.reference.recurrent import run_stack


def visual_logits(options, grids, questions, arrays):
    """Logits [B, V] and maps [B, K, R, C].

    Args:
        options: Of `VisualAnsweringModel`.
        grids: Features [B, R, C, F].
        questions: A list of ids a row, end mark last, without pads.
        arrays: Weights by part, as `parts_of` names them.
    """
    found = [
        _row(options, grid, question, arrays)
        for grid, question in zip(grids, questions, strict=True)
    ]
    return np.stack([logits for logits, _ in found]), np.stack([maps for _, maps in found])


def _row(options, grid, question, arrays):
    kernel, bias = arrays["cells"]
    cells = np.tanh(grid.reshape(-1, grid.shape[-1]) @ kernel + bias)  # [R * C, M]
    query = _final(options, arrays["embedding"][0][question], arrays["stack"])  # [M]
    maps = []
    for hop in range(options["hops"]):
        if hop:
            query = query @ arrays["update"][0] + context  # noqa: F821
        score = SCORES[options["attention"]["score"]]
        weights = softmax(score(query[np.newaxis], cells, arrays["attention"]))[0]
        context = weights @ cells
        maps.append(weights.reshape(grid.shape[:2]))
    kernel, bias = arrays["joined"]
    joined = np.maximum(np.concatenate([query, context, query * context]) @ kernel + bias, 0.0)
    return project(joined, *arrays["projection"]), np.stack(maps)


def _final(options, embedded, weights):
    encoder = options["encoder"]
    _, forward, backward = run_stack(
        options["cell"],
        embedded[np.newaxis],
        [len(embedded)],
        weights,
        encoder["bidirectional"],
        encoder["residual"],
    )
    return np.concatenate([states[-1][0][0] for states in (forward, backward) if states])


def parts_of(model):
    """The variables of a `VisualAnsweringModel` as `visual_logits` names their parts."""
    encoder = model.encoder
    parts = {
        "embedding": encoder.words.embedding,
        "stack": encoder.stack,
        "cells": encoder.cells,
        "attention": model.reads.attention,
        "joined": model.joined,
        "projection": model.projection,
    }
    if model.reads.hops > 1:
        parts["update"] = model.reads.update
    return {name: part.trainable_variables for name, part in parts.items()}
