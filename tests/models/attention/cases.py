"""Every attention there is, small, for the tests that hold for all."""

from models.attention.kinds import ATTENTIONS, make_attention
from models.attention.scores import SCORES
from tests.models.examples import mask_of, random_tensor, randomize
from tests.models.reference.attention import attend

LENGTHS = [3, 5, 1]
POSITIONS = 5
WINDOW = 2
HEADS = 3

CASES = [(kind, score) for kind in ATTENTIONS for score in SCORES] + [("soft", "multi_head")]
NEED_EQUAL_SIZES = ("dot", "scaled_dot")


def options_of(kind, score):
    return {"kind": kind, "score": score, "units": 6, "heads": HEADS, "window": WINDOW}


def make(kind, score, scale=0.5, **options):
    """A built member with random weights, with two sizes unless it needs them equal."""
    given = {**options_of(kind, score), **options}
    memory_size = 4 if score in NEED_EQUAL_SIZES else 3
    attention = make_attention(query_size=4, memory_size=memory_size, **given)
    attention.build()
    return randomize(attention, scale=scale)


def inputs(attention, queries=3, positions=POSITIONS):
    query = random_tensor(len(LENGTHS), queries, attention.query_size, seed=1)
    memory = random_tensor(len(LENGTHS), positions, attention.memory_size, seed=2)
    return query, memory, mask_of(LENGTHS, positions)


def expected(kind, score, query, memory, weights, lengths=LENGTHS, place=None):
    """Context and weights by the reference, of arrays."""
    return attend(
        score, query, memory, lengths, weights, kind=kind, place=place, window=WINDOW, heads=HEADS
    )


def trainable(attention):
    return [variable.numpy() for variable in attention.trainable_variables]
