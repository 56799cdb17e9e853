"""Attention by name: a kind over a score."""

from typing import Any

from models.attention.contract import Attention
from models.attention.hard import HardAttention
from models.attention.local import LocalMonotonicAttention, LocalPredictiveAttention
from models.attention.multi_head import MultiHeadAttention
from models.attention.soft import ScoredAttention, SoftAttention
from models.errors import UserError

ATTENTIONS: dict[str, type[ScoredAttention]] = {
    "soft": SoftAttention,
    "hard": HardAttention,
    "local_monotonic": LocalMonotonicAttention,
    "local_predictive": LocalPredictiveAttention,
}

# Options that only some kinds take; the others are given them and leave them.
_OWN = {
    "hard": ("baseline_decay", "entropy_weight", "reinforce_weight"),
    "local_monotonic": ("window",),
    "local_predictive": ("window",),
}


def make_attention(
    score: str = "general",
    units: int | None = None,
    kind: str = "soft",
    heads: int = 8,
    window: int = 10,
    baseline_decay: float = 0.9,
    entropy_weight: float = 0.002,
    reinforce_weight: float = 1.0,
    **kwargs: Any,
) -> Attention:
    """Attention by name.

    Args:
        score: A key of `models.attention.scores.SCORES`, or `multi_head`.
        units: Width of concat, additive and multi_head; the other scores have none.
        kind: A key of `ATTENTIONS`.
        heads: Of multi_head.
        window: Of the local kinds.
        baseline_decay: Of hard.
        entropy_weight: Of hard.
        reinforce_weight: Of hard.
        **kwargs: Of `Attention`.

    Raises:
        UserError: If the kind cannot go over the score, or the sizes do not fit it.
    """
    if score == "multi_head":
        if kind != "soft":
            raise UserError(
                f"model.attention.kind '{kind}' takes one score a position, and "
                f"model.attention.score 'multi_head' has one a head; take the kind 'soft' or "
                f"another score"
            )
        return MultiHeadAttention(heads=heads, units=units, **kwargs)
    options: dict[str, Any] = {
        "window": window,
        "baseline_decay": baseline_decay,
        "entropy_weight": entropy_weight,
        "reinforce_weight": reinforce_weight,
    }
    own = {name: options[name] for name in _OWN.get(kind, ())}
    return ATTENTIONS[kind](score=score, units=units, **own, **kwargs)
