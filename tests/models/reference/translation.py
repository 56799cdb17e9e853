"""The whole translation model in NumPy: logits of known targets."""

from tests.models.reference import decoders
from tests.models.reference.bridges import BRIDGES
from tests.models.reference.losses import project
from tests.models.reference.recurrent import part_sizes, run_stack


def translation_logits(options, source, target, arrays):
    """Logits [B, T, V].

    Args:
        options: Of `TranslationModel`, every one of `cell`, `encoder`, `decoder` and `attention`.
        source: Ids [B, S], 0 at pads.
        target: Ids [B, T].
        arrays: Weights by part: `source_embedding`, `encoder`, `bridge`, `projection` and those
            of the decoder.
    """
    cell, encoder, decoder = options["cell"], options["encoder"], options["decoder"]
    lengths = (source != 0).sum(-1)
    embedded = arrays["source_embedding"][0][source]
    shape = (encoder["bidirectional"], encoder["residual"])
    merge = encoder.get("merge", "concat")
    memory, *finals = run_stack(cell, embedded, lengths, arrays["encoder"], *shape, merge=merge)
    sizes = (decoder["layers"], part_sizes(cell, decoder["units"]))
    states = BRIDGES[decoder["bridge"]](*finals, arrays["bridge"], *sizes)
    given = (cell, options["attention"]["score"], target, memory, lengths, states, arrays)
    if decoder["kind"] == "luong":
        feeding = (decoder["input_feeding"], decoder["residual"])
        features, _ = decoders.luong(*given, *feeding)
    else:
        features, _ = decoders.bahdanau(*given, decoder["residual"])
    return project(features, *arrays["projection"])


def variables_by_part(model):
    """The variables of a `TranslationModel` as `translation_logits` names their parts."""
    parts = {
        "source_embedding": model.encoder.embedding,
        "encoder": model.encoder.stack,
        "embedding": model.decoder.embedding,
        "stack": model.decoder.stack,
        "attention": model.decoder.attention,
        "bridge": model.decoder.bridge,
        "combine": model.decoder.combine,
        "projection": model.projection,
    }
    return {name: part.trainable_variables for name, part in parts.items()}
