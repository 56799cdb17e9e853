"""The models that read clips in NumPy, from what the network makes of each frame."""

import numpy as np

from tests.models.reference import decoders
from tests.models.reference.bridges import BRIDGES
from tests.models.reference.losses import project
from tests.models.reference.recurrent import part_sizes, run_stack


def lip_logits(options, grids, target, arrays):
    """Logits [B, T, V].

    Args:
        options: Of `LipReadingModel`, every one of `cell`, `encoder`, `decoder` and `attention`.
        grids: Grids [F, R, C, D] of the F frames of each clip.
        target: Ids [B, T].
        arrays: Weights by part, as `parts_of` names them.
    """
    cell, decoder, lengths = options["cell"], options["decoder"], [len(grid) for grid in grids]
    memory, *finals = _read(options, grids, arrays)
    sizes = (decoder["layers"], part_sizes(cell, decoder["units"]))
    states = BRIDGES[decoder["bridge"]](*finals, arrays["bridge"], *sizes)
    given = (cell, options["attention"]["score"], target, memory, np.array(lengths), states, arrays)
    features, _ = decoders.luong(*given, decoder["input_feeding"], decoder["residual"])
    return project(features, *arrays["projection"])


def frame_tag_logits(options, grids, arrays):
    """Logits [B, T, V] of `FrameTaggingModel`; arguments as of `lip_logits`."""
    memory, *_ = _read(options, grids, arrays)
    return project(memory, *arrays["projection"])


def _read(options, grids, arrays):
    """Memory [B, T, M] of clips, and the final states."""
    encoder = options["encoder"]
    (kernel,), (scale, shift) = arrays["frame"], arrays["norm"]
    lengths = [len(grid) for grid in grids]
    frames = np.zeros((len(grids), max(lengths), kernel.shape[1]))
    for row, grid in enumerate(grids):
        seen = grid.reshape(len(grid), -1) @ kernel  # [F, E]
        spread = np.sqrt(seen.var(-1, keepdims=True) + 1e-3)
        normal = (seen - seen.mean(-1, keepdims=True)) / spread * scale + shift
        frames[row, : len(grid)] = np.maximum(normal, 0.0)
    shape = (encoder["bidirectional"], encoder["residual"])
    return run_stack(options["cell"], frames, lengths, arrays["encoder"], *shape)


def parts_of(model):
    """The variables of a `LipReadingModel`, but for the network's, as `lip_logits` names them."""
    parts = {
        "frame": model.encoder.frame,
        "norm": model.encoder.norm,
        "encoder": model.encoder.stack,
        "embedding": model.decoder.embedding,
        "stack": model.decoder.stack,
        "attention": model.decoder.attention,
        "bridge": model.decoder.bridge,
        "combine": model.decoder.combine,
        "projection": model.projection,
    }
    return {name: part.trainable_variables for name, part in parts.items()}
