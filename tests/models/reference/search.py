"""Searches in Python, over functions that give the log probabilities [V] after a prefix."""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple


class Hypothesis(NamedTuple):
    words: tuple[int, ...]  # end mark included
    log_probability: float
    score: float


class Rules(NamedTuple):
    """What a search is told besides: what must not be said, and what scores lose."""

    min_words: int = 0
    ngram: int = 0  # words of n-grams that come once; 0 for any
    coverage: float = 0.0  # weight of the penalty
    attention: Callable | None = None  # weights [S] by which the word after a prefix came
    prefix: tuple = ()  # words to begin with

    def words(self, said, count, max_words, end):
        """The words that may follow, of `count` there are."""
        if len(said) < len(self.prefix):
            return [self.prefix[len(said)]]
        if len(said) == max_words:
            return [end]
        free = [
            word
            for word in range(count)
            if not (word == end and len(said) < self.min_words)
            and not (self.ngram and repeats((*said, word), self.ngram))
        ]
        return free or [end]

    def covered(self, words):
        """What coverage adds to a score."""
        if not self.coverage:
            return 0.0
        sums = sum(self.attention(words[:i]) for i in range(len(words)))
        return self.coverage * sum(math.log(min(max(each, 1e-6), 1.0)) for each in sums)


FREE = Rules()


def repeats(words, size):
    """Whether the last n-gram stands before."""
    earlier = [words[i : i + size] for i in range(len(words) - size)]
    return words[-size:] in earlier


def finish(words, log_probability, power, rules=FREE):
    """A hypothesis that has ended, scored by `log p / ((5 + length) / 6) ** power`."""
    penalty = ((5 + len(words)) / 6) ** power
    return Hypothesis(words, log_probability, log_probability / penalty + rules.covered(words))


def greedy(log_probabilities, max_words, power, end, rules=FREE):
    """The likeliest word each time, the end mark at the limit."""
    words, total = (), 0.0
    while not words or words[-1] != end:
        found = log_probabilities(words)
        word = max(rules.words(words, len(found), max_words, end), key=lambda each: found[each])
        words, total = (*words, word), total + found[word]
    return finish(words, total, power, rules)


def beam(log_probabilities, width, max_words, power, nbest, end, stop_early=False, rules=FREE):
    """The best continuations each time, as many as places are left; ended ones keep theirs.

    Returns the best hypotheses and the number of rounds.
    """
    alive, finished, rounds = [((), 0.0)], [], 0
    while alive and not (stop_early and decided(alive, finished, max_words, power, nbest)):
        candidates = []
        for words, total in alive:
            found = log_probabilities(words)
            allowed = rules.words(words, len(found), max_words, end)
            candidates += [((*words, word), total + found[word]) for word in allowed]
        candidates = [each for each in candidates if each[1] > float("-inf")]
        candidates.sort(key=lambda each: -each[1])
        kept = candidates[: width - len(finished)]
        finished += [finish(*each, power, rules) for each in kept if each[0][-1] == end]
        alive = [each for each in kept if each[0][-1] != end]
        rounds += 1
    return sorted(finished, key=lambda each: -each.score)[:nbest], rounds


def decided(alive, finished, max_words, power, nbest):
    """Whether not even the best hypothesis alive, ending surely and at full length, can win."""
    if len(finished) < nbest:
        return False
    last = sorted((each.score for each in finished), reverse=True)[nbest - 1]
    longest = ((5 + max_words + 1) / 6) ** power
    return max(total for _, total in alive) / longest <= last


def every_hypothesis(log_probabilities, vocabulary, max_words, power, end):
    """All that could be said within the limit, best first."""
    others = [word for word in range(vocabulary) if word != end]
    found = []
    for length in range(max_words + 1):
        for words in itertools.product(others, repeat=length):
            words = (*words, end)
            total = sum(log_probabilities(words[:i])[words[i]] for i in range(len(words)))
            found.append(finish(words, total, power))
    return sorted(found, key=lambda each: -each.score)
