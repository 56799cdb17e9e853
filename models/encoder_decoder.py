"""What all models share that look at a source while they write: targets forced, found and drawn."""

import abc
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from models.decoders.contract import Decoded, DecoderStep
from models.encoders import with_a_position
from models.forced import ForcedOutput, score_targets
from models.projection import Project
from models.search.coverage import Covered, uncovered
from models.search.hypotheses import Hypotheses, NextWord, SearchLimits, SearchOptions
from models.search.methods import search
from models.search.sampling import Draws, sample
from models.sequence_model import SequenceModel
from models.special_ids import BEGIN_ID, END_ID, NO_WORDS


class Begun(NamedTuple):
    """A source that was read, and where a target starts from."""

    memory: Any  # what steps attend to, any structure of [B, ...]
    state: Any  # before the first step, any structure of [B, 1, ...]
    mask: tf.Tensor  # [B, S], bool: true at real positions of the source
    lengths: tf.Tensor  # [B], int32: words of the source, by which those of targets are limited


class EncoderDecoder(SequenceModel):
    """Contract: a source is read once, and a target written word by word, looking at it.

    Members say how a source is read, what a step is, and what all steps of a known target are.
    What is forced, found and drawn follows from these.
    """

    @abc.abstractmethod
    def source_of(self, inputs: dict[str, tf.Tensor]) -> Any:
        """What `begin` reads of the inputs, as `force` and `translate` take it."""

    @abc.abstractmethod
    def begin(self, source: Any, training: bool = False) -> Begun:
        """Read sources, int32 [B, S], each row ending in the end mark, or what a member takes."""

    @abc.abstractmethod
    def step(self, tokens: tf.Tensor, memory: Any, state: Any) -> DecoderStep:
        """Write on after one more word of each hypothesis.

        Args:
            tokens: Int32 [B, K], the words last chosen.
            memory: Of `Begun`.
            state: Of `Begun` or the step before.

        Returns:
            Features [B, K, H], attention [B, K, S] and the state after the word.
        """

    @abc.abstractmethod
    def decode(self, target: tf.Tensor, begun: Begun, training: bool = False) -> Decoded:
        """All steps of known targets, int32 [B, T], begin mark first."""

    def limits(self, begun: Begun, options: SearchOptions) -> SearchLimits:
        """How long targets may be: by their sources, unless a member's have no words."""
        return SearchLimits.from_source(begun.lengths, options)

    def features(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Features [B, T, H] of known targets."""
        return self._decode(inputs, training).features

    def force(self, source: Any, target: tf.Tensor, labels: tf.Tensor) -> ForcedOutput:
        """Score given targets.

        Args:
            source: Of `begin`.
            target: Int32 [B, T], begin mark first.
            labels: Int32 [B, T], end mark last.

        Returns:
            Log probabilities and attention; T is 1 where the targets have no column.
        """
        target, labels = with_a_position(target), with_a_position(labels)  # [B, T]
        decoded = self.decode(target, self.begin(source))
        return score_targets(decoded, labels, self.projection)

    def translate(
        self, source: Any, options: SearchOptions, prefix: tf.Tensor | None = None
    ) -> Hypotheses:
        """Find targets.

        Args:
            source: Of `begin`.
            options: Method, beam, penalties, limits and number of targets.
            prefix: Int32 [B, P], words that each target begins with, padded; their log
                probabilities count. None if it is free.

        Returns:
            The best `options.nbest` targets of each row, best first.

        Raises:
            UserError: If that is more than the search keeps.
        """
        begun = self.begin(source)
        state, limits = self._start(begun, options)
        step_of = self._step_of(options, tf.size(limits.max_words) * options.width)
        if prefix is not None:
            limits = limits.with_prefix(prefix)

        def narrowed(rows: tf.Tensor) -> NextWord:
            memory = tf.nest.map_structure(lambda part: tf.gather(part, rows), begun.memory)
            return step_of(begun._replace(memory=memory))

        given = (state, limits, options, BEGIN_ID, END_ID)
        return search(step_of(begun), *given, narrowed)

    def sample(self, source: Any, options: SearchOptions, draws: Draws) -> Hypotheses:
        """Draw targets.

        Args:
            source: Of `begin`.
            options: Limits, repeats and penalties.
            draws: How each row draws.

        Returns:
            One target a row.
        """
        begun = self.begin(source)
        state, limits = self._start(begun, options)
        step = self._step_of(options, tf.size(limits.max_words))(begun)
        return sample(step, state, limits, draws, options, BEGIN_ID, END_ID)

    def next_word(self, begun: Begun, project: Project | None = None) -> NextWord:
        """A step as searches take it.

        Args:
            begun: What it looks at.
            project: The projection made ready for a loop; None takes it as it is.
        """
        project = project or (lambda features: self.projection(features, excluded=NO_WORDS))

        def step(tokens: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
            outcome = self.step(tokens, begun.memory, state)
            return project(outcome.features), outcome.state  # [B, K, V]

        return step

    def _start(self, begun: Begun, options: SearchOptions) -> tuple[Any | Covered, SearchLimits]:
        """What a search starts from: the first state, and the limits."""
        limits = self.limits(begun, options)
        covers = options.coverage_penalty
        return uncovered(begun.state, begun.mask) if covers else begun.state, limits

    def _step_of(self, options: SearchOptions, rows: tf.Tensor) -> Callable[[Begun], NextWord]:
        """The step over some sentences, for at most so many hypotheses, int32 []."""
        make = self._covering_next_word if options.coverage_penalty else self.next_word
        return functools.partial(make, project=self.projection.for_loop(rows, NO_WORDS))

    def _covering_next_word(self, begun: Begun, project: Project) -> NextWord:
        """`next_word`, which also sums up the attention."""

        def step(tokens: tf.Tensor, before: Covered) -> tuple[tf.Tensor, Covered]:
            outcome = self.step(tokens, begun.memory, before.state)
            after = Covered(outcome.state, before.coverage + outcome.weights)  # [B, K, S]
            return project(outcome.features), after  # [B, K, V]

        return step

    def _decode(self, inputs: dict[str, tf.Tensor], training: bool) -> Decoded:
        begun = self.begin(self.source_of(inputs), training)
        return self.decode(inputs["target"], begun, training)
