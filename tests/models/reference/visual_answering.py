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
    words, query = _read(options, arrays["embedding"][0][question], arrays["stack"])  # [Q, M], [M]
    maps = []
    for hop in range(options["hops"]):
        if hop:
            query = query @ arrays["update"][0] + context  # noqa: F821
        score = SCORES[options["attention"]["score"]]
        weights = softmax(score(query[np.newaxis], cells, arrays["attention"]))[0]
        context = weights @ cells
        maps.append(weights.reshape(grid.shape[:2]))
    said_kernel, said_bias, seen_kernel, seen_bias = arrays["agreement"]
    said = np.tanh(words.max(0) @ said_kernel + said_bias)
    agreed = (said * np.tanh(cells @ seen_kernel + seen_bias)).max(0)
    features = np.concatenate([query, context, agreed])
    for kernel, bias in (arrays["joined"], arrays["decided"]):
        features = np.maximum(features @ kernel + bias, 0.0)
    return project(features, *arrays["projection"]), np.stack(maps)


def _read(options, embedded, weights):
    """Outputs at each word, and final states."""
    encoder = options["encoder"]
    outputs, forward, backward = run_stack(
        options["cell"],
        embedded[np.newaxis],
        [len(embedded)],
        weights,
        encoder["bidirectional"],
        encoder["residual"],
    )
    final = [states[-1][0][0] for states in (forward, backward) if states]
    return outputs[0], np.concatenate(final)


def parts_of(model):
    """The variables of a `VisualAnsweringModel` as `visual_logits` names their parts."""
    encoder = model.encoder
    parts = {
        "embedding": encoder.words.embedding,
        "stack": encoder.stack,
        "cells": encoder.cells,
        "attention": model.reads.attention,
        "agreement": model.agreement,
        "joined": model.joined,
        "decided": model.decided,
        "projection": model.projection,
    }
    if model.reads.hops > 1:
        parts["update"] = model.reads.update
    return {name: part.trainable_variables for name, part in parts.items()}
