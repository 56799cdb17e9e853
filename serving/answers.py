"""What a client gives back: typed answers."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translation.

    Attributes:
        text: The translation.
        score: Its length-normalised log probability.
    """

    text: str
    score: float


@dataclasses.dataclass(frozen=True)
class Alignment:
    """A translation, and what each of its pieces attended to.

    Attributes:
        text: The translation.
        source_tokens: S pieces of the source.
        target_tokens: T pieces of the translation.
        weights: T rows of S weights.
    """

    text: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]


@dataclasses.dataclass(frozen=True)
class PairScore:
    """How likely the model finds a given translation.

    Attributes:
        log_probability: Sum over the target's pieces and the end mark.
        tokens: Number of terms of that sum.
    """

    log_probability: float
    tokens: int


@dataclasses.dataclass(frozen=True)
class Continuation:
    """How a text goes on.

    Attributes:
        text: What is added to the prompt, the space before it too.
        score: Its log probability.
        tokens: Pieces that were added, an end mark counted.
    """

    text: str
    score: float
    tokens: int


@dataclasses.dataclass(frozen=True)
class VersionStatus:
    """State of one version of a model.

    Attributes:
        version: Its number.
        state: `START`, `LOADING`, `AVAILABLE`, `UNLOADING` or `END`.
        error_message: Why it could not be loaded; empty when nothing is wrong.
    """

    version: int
    state: str
    error_message: str
