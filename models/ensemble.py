"""Several trained models that answer as one."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from models.attention.contract import Draw
from models.decoders.contract import Decoded, DecoderStep
from models.encoder_decoder import Begun, EncoderDecoder
from models.projection import Project, VocabularyProjection
from models.search.hypotheses import SearchLimits, SearchOptions


class EnsembleModel(EncoderDecoder):
    """The mean of what several models find probable, at every word (Sutskever et al. 2014).

    `p(w) = 1/N Σ_n p_n(w)`, the arithmetic mean of the members' probabilities and not of their
    logarithms; logits are the logarithm of it. Each member has a memory and a state of its own,
    and the attention that is told is the mean of theirs. Searches, forced scores and losses are
    those of any model: the features are those of the members side by side, and the projection
    gives each member its own.

    It is made of trained models, and not trained.

    Args:
        members: Built models of one task, with the same vocabularies.
    """

    def __init__(self, members: Sequence[EncoderDecoder], **kwargs: Any):
        super().__init__(**kwargs)
        self.members = list(members)
        self.projection: Any = MixedProjections([each.projection for each in members])
        self.built = True

    def source_of(self, inputs: dict[str, tf.Tensor]) -> Any:
        """What every member reads."""
        return self.members[0].source_of(inputs)

    def begin(self, source: Any, training: bool = False) -> Begun:
        """Read by each member, whose memories and states are tuples here."""
        begun = [each.begin(source, training) for each in self.members]
        memory, state, masks, lengths = zip(*begun, strict=True)
        return Begun(memory, state, masks[0], lengths[0])

    def limits(self, begun: Begun, options: SearchOptions) -> SearchLimits:
        """Those of any member."""
        return self.members[0].limits(begun, options)

    def step(self, tokens: tf.Tensor, memory: Any, state: Any) -> DecoderStep:
        """A step of each member."""
        steps = [
            each.step(tokens, *own) for each, *own in zip(self.members, memory, state, strict=True)
        ]
        return DecoderStep(
            tf.concat([each.features for each in steps], -1),  # [B, K, ΣH]
            _mean([each.weights for each in steps]),  # [B, K, S]
            _joint([each.draw for each in steps]),
            tuple(each.state for each in steps),  # type: ignore[arg-type]
        )

    def decode(self, target: tf.Tensor, begun: Begun, training: bool = False) -> Decoded:
        """All steps of each member."""
        decoded = [
            each.decode(target, begun._replace(memory=memory, state=state), training)
            for each, memory, state in zip(self.members, begun.memory, begun.state, strict=True)
        ]
        return Decoded(
            tf.concat([each.features for each in decoded], -1),  # [B, T, ΣH]
            _mean([each.weights for each in decoded]),  # [B, T, S]
            _joint([each.draw for each in decoded]),
        )


class MixedProjections:
    """From features of several models side by side to the mean of what each finds probable.

    It is called as a `VocabularyProjection` is. Its logits are log probabilities.

    Args:
        projections: Those of the models, in their order.
    """

    def __init__(self, projections: Sequence[VocabularyProjection]):
        self._projections = list(projections)

    def __call__(self, features: tf.Tensor, excluded: Sequence[int] = ()) -> tf.Tensor:
        """Float32 [..., V] of features [..., ΣH]; words `excluded` have no part in any model's."""

        def of(projection: VocabularyProjection) -> Project:
            return lambda part: projection(part, excluded=excluded)

        return self._mixed(features, [of(each) for each in self._projections])

    def for_loop(self, most: tf.Tensor, excluded: Sequence[int] = ()) -> Project:
        """As of `VocabularyProjection`."""
        of_each = [each.for_loop(most, excluded) for each in self._projections]
        return functools.partial(self._mixed, of_each=of_each)

    def _mixed(self, features: tf.Tensor, of_each: Sequence[Project]) -> tf.Tensor:
        sizes = [each.features_size for each in self._projections]
        parts = tf.split(features, sizes, -1)  # N of [..., H]
        found = [tf.nn.log_softmax(each(part)) for each, part in zip(of_each, parts, strict=True)]
        return tf.reduce_logsumexp(tf.stack(found), 0) - math.log(len(found))


def _mean(weights: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n(weights) / len(weights)


def _joint(draws: Sequence[Draw]) -> Draw:
    """Draws of attentions that know nothing of each other, as one."""
    return Draw(*map(tf.add_n, zip(*draws, strict=True)))
