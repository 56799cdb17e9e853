"""Toy next-word functions: what comes next depends on all words before, through a hash."""

import numpy as np
import tensorflow as tf

from models.search.coverage import Covered, uncovered
from models.search.hypotheses import SearchLimits, SearchOptions
from models.search.methods import search
from tests.models.reference.losses import log_softmax
from tests.models.reference.search import Hypothesis

VOCABULARY, ROWS_OF_TABLE = 5, 97
POSITIONS = 3  # of the source that toys attend to; every other sentence has one less
BEGIN, END = 2, 3


def random_table(seed, peak=2.0):
    """Logits [97, V] by hash; the higher the peak, the surer the next word."""
    return np.random.default_rng(seed).normal(0.0, peak, (ROWS_OF_TABLE, VOCABULARY))


def hashed(before, words):
    return (before * 7 + words + 1) % ROWS_OF_TABLE


def next_word_of(table):
    """A step over a state with two parts, both of which say where a hypothesis has come."""

    def next_word(tokens, state):
        state = {"hash": hashed(state["hash"], tokens), "path": state["path"] + 1.0}
        return tf.gather(table, state["hash"]), state

    return next_word


def attention_table(seed=11):
    """Attention [97, 3] by hash, in which some positions get none."""
    weights = np.random.default_rng(seed).gamma(0.5, 1.0, (ROWS_OF_TABLE, POSITIONS))
    weights[weights < 0.05] = 0.0
    weights[:, 0] += 1e-3
    return weights / weights.sum(1, keepdims=True)


def positions_of(seed):
    """Source positions of a sentence."""
    return POSITIONS - seed % 2


def covering(next_word):
    """A step that also sums up attention, as the toy table has it, over real positions."""
    table = tf.constant(attention_table(), tf.float32)

    def step(tokens, before):
        logits, state = next_word(tokens, before.state)
        return logits, Covered(state, before.coverage + tf.gather(table, state["hash"]))

    return step


def attention_of(seed):
    """Weights by which the word after a prefix comes, in NumPy."""
    table = attention_table()

    def attention(words):
        before = seed
        for word in (BEGIN, *words):
            before = hashed(before, word)
        return table[before, : positions_of(seed)]

    return attention


def first_state(seeds):
    """State of sentences that differ by their seeds, int32 [B]."""
    hash_ = seeds[:, tf.newaxis]
    return {"hash": hash_, "path": tf.cast(hash_, tf.float32)[..., tf.newaxis]}


def log_probabilities_of(table, seed):
    """The same function of a prefix, in NumPy."""

    def log_probabilities(words):
        before = seed
        for word in (BEGIN, *words):
            before = hashed(before, word)
        return log_softmax(table[before])

    return log_probabilities


def narrowed_to(next_word, seeds):
    """Gives a step over some sentences, whose logits are wrong where they are asked of others."""

    def narrowed(rows):
        memory = tf.gather(seeds, rows)[:, tf.newaxis]  # [R, 1]

        def step(tokens, before):
            state, sentence = before
            logits, state = next_word(tokens, state)
            same = tf.equal(sentence, memory)[:, :, tf.newaxis]
            return tf.where(same, logits, -tf.square(logits)), (state, sentence)

        return step

    return narrowed


class ToySearch:
    """One compiled search for any table, sentences and limits, and prefixes [B, P] if given.

    A search that narrows leaves out sentences that have ended.
    """

    def __init__(self, prefix=None, narrows=False, **options):
        self.prefix = prefix
        self.narrows = narrows
        self.options = SearchOptions(**options)
        specs = [tf.TensorSpec([None, VOCABULARY]), *[tf.TensorSpec([None], tf.int32)] * 2]
        self._search = tf.function(self._run, input_signature=specs)

    def __call__(self, table, seeds, limits):
        """Hypotheses as tensors."""
        return self._search(tf.constant(table, tf.float32), seeds, limits)

    def hypotheses(self, table, seeds, limits):
        """For each sentence a list of `Hypothesis`, the empty places left out."""
        found = [part.numpy() for part in self(table, seeds, limits)]
        return [list(_listed(*row)) for row in zip(*found, strict=True)]

    def rounds(self, table, seeds, limits):
        """How often the next word is asked for."""
        asked = []
        step = next_word_of(tf.constant(table, tf.float32))

        def counting(tokens, state):
            asked.append(1)
            return step(tokens, state)

        self._eagerly(counting, tf.constant(seeds), tf.constant(limits))
        return len(asked)

    def _run(self, table, seeds, limits):
        return self._eagerly(next_word_of(table), seeds, limits)

    def _eagerly(self, next_word, seeds, limits):
        state = first_state(seeds)
        if self.options.coverage_penalty:
            mask = tf.sequence_mask(positions_of(seeds), POSITIONS)
            next_word, state = covering(next_word), uncovered(state, mask)
        shortest = tf.fill(tf.shape(limits), self.options.min_length)
        bounds = SearchLimits(limits, shortest)
        if self.prefix is not None:
            bounds = bounds.with_prefix(tf.constant(self.prefix))
        if not self.narrows:
            return search(next_word, state, bounds, self.options, BEGIN, END)
        seeds = tf.convert_to_tensor(seeds)
        narrowed = narrowed_to(next_word, seeds)
        state = (state, seeds[:, tf.newaxis])
        return search(next_word, state, bounds, self.options, BEGIN, END, narrowed)


def _listed(ids, lengths, scores, log_probabilities):
    for n in range(len(lengths)):
        if lengths[n]:
            words = tuple(ids[n, : lengths[n]].tolist())
            yield Hypothesis(words, float(log_probabilities[n]), float(scores[n]))


def assert_same_hypotheses(found, wanted):
    """Equal words, and scores to single precision."""
    assert [each.words for each in found] == [each.words for each in wanted]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours[1:], theirs[1:], rtol=1e-5, atol=1e-5)
