"""How a language model is asked to go on with a text."""

import dataclasses
import math
from collections.abc import Sequence

from models.errors import UserError
from serving import signatures

_MOST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Generation:
    """How words are drawn.

    Attributes:
        max_tokens: Pieces added at most; an export has a limit of its own too.
        temperature: Divides logits; 0 takes the likeliest piece.
        top_k: Likeliest pieces that are drawn from; 0 for all.
        top_p: Joint probability of the likeliest pieces that are drawn from.
        seed: Of the first prompt's draws; each other has the next one. The same seed, prompt and
            settings give the same text.
    """

    max_tokens: int = 200
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1


def generation_columns(prompts: Sequence[str], generation: Generation) -> dict[str, Sequence]:
    """The inputs of the signature `generate`, a row a prompt.

    Raises:
        UserError: If a setting cannot be right.
    """
    _check(generation)
    rows = len(prompts)
    return {
        signatures.PROMPT: prompts,
        signatures.MAX_TOKENS: [generation.max_tokens] * rows,
        signatures.TEMPERATURE: [float(generation.temperature)] * rows,
        signatures.TOP_K: [generation.top_k] * rows,
        signatures.TOP_P: [float(generation.top_p)] * rows,
        signatures.SEED: [(generation.seed + row) % (_MOST + 1) for row in range(rows)],
    }


def _check(generation: Generation) -> None:
    if not (0.0 <= generation.temperature and math.isfinite(generation.temperature)):
        raise UserError(f"temperature {generation.temperature:g}: must be a number of at least 0")
    if not 0.0 <= generation.top_p <= 1.0:
        raise UserError(f"top_p {generation.top_p:g}: must be between 0 and 1")
    for name in ("max_tokens", "top_k", "seed"):
        value = getattr(generation, name)
        if not 0 <= value <= _MOST:
            raise UserError(f"{name} {value}: must be between 0 and {_MOST}")
