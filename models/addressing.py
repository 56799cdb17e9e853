"""How heads find their place in a memory, and write there.

Graves, Wayne & Danihelka 2014, "Neural Turing Machines", section 3.
"""

from typing import NamedTuple

import tensorflow as tf

# Added to weights before their logarithm: zero to some power is zero, and has a gradient.
_TINY = 1e-30
# Norms below its root count as the root, so that a key or a row of zeros has a cosine.
_SMALL_SQUARE = 1e-12


class HeadParameters(NamedTuple):
    """What the controller tells its heads, K = R + W of them, those that read first."""

    keys: tf.Tensor  # [B, K, M], in (-1, 1)
    strengths: tf.Tensor  # [B, K, 1], β > 0
    gates: tf.Tensor  # [B, K, 1], g in (0, 1)
    shifts: tf.Tensor  # [B, K, 2s + 1], a distribution over -s..s
    sharpness: tf.Tensor  # [B, K, 1], γ >= 1
    erasures: tf.Tensor  # [B, W, M], e in (0, 1)
    additions: tf.Tensor  # [B, W, M], a in (-1, 1)


class HeadSizes(NamedTuple):
    """How many heads there are, and what each is told."""

    read_heads: int  # R
    write_heads: int  # W
    features: int  # M
    shift_range: int  # s

    @property
    def heads(self) -> int:
        """Heads of both kinds, K."""
        return self.read_heads + self.write_heads

    @property
    def numbers(self) -> list[int]:
        """Numbers in each part of `HeadParameters` of one row of a batch."""
        written = self.write_heads * self.features
        each = [self.features, 1, 1, 2 * self.shift_range + 1, 1]
        return [*(self.heads * size for size in each), written, written]


def head_parameters(found: tf.Tensor, sizes: HeadSizes) -> HeadParameters:
    """Bring what a controller gives into the ranges of the parameters.

    Args:
        found: [B, sum(sizes.numbers)]: all keys, then all strengths, and so on.
        sizes: Of the heads.
    """
    heads = [sizes.heads] * 5 + [sizes.write_heads] * 2
    keys, strengths, gates, shifts, sharpness, erasures, additions = (
        tf.reshape(part, [-1, count, size // count])
        for part, count, size in zip(
            tf.split(found, sizes.numbers, 1), heads, sizes.numbers, strict=True
        )
    )
    return HeadParameters(
        tf.tanh(keys),
        tf.nn.softplus(strengths),
        tf.sigmoid(gates),
        tf.nn.softmax(shifts),
        1 + tf.nn.softplus(sharpness),
        tf.sigmoid(erasures),
        tf.tanh(additions),
    )


def address(parameters: HeadParameters, memory: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
    """Where heads turn to: Graves et al. 2014, section 3.3.

    Args:
        parameters: Of K heads.
        memory: [B, N, M].
        before: Where they were, [B, K, N].

    Returns:
        Weights [B, K, N]; those of a head sum to one.
    """
    keys = tf.math.l2_normalize(parameters.keys, -1, _SMALL_SQUARE)  # [B, K, M]
    rows = tf.math.l2_normalize(memory, -1, _SMALL_SQUARE)  # [B, N, M]
    cosines = tf.matmul(keys, rows, transpose_b=True)  # [B, K, N]
    by_content = tf.nn.softmax(parameters.strengths * cosines)  # [B, K, N]
    gated = parameters.gates * by_content + (1 - parameters.gates) * before  # [B, K, N]
    shifted = shift(gated, parameters.shifts)  # [B, K, N]
    # The power by logarithms: powers of small weights could all be zero.
    return tf.nn.softmax(parameters.sharpness * tf.math.log(shifted + _TINY))


def shift(weights: tf.Tensor, shifts: tf.Tensor) -> tf.Tensor:
    """Circular convolution: `w'(i) = Σ_d shifts(d) w(i - d)`, d from -s to s.

    Args:
        weights: [..., N].
        shifts: [..., 2s + 1].

    Returns:
        [..., N].
    """
    rows, places = weights.shape[-1], shifts.shape[-1]
    reach = places // 2
    ring = tf.concat([weights[..., rows - reach :], weights, weights[..., :reach]], -1)
    moved = [
        shifts[..., place : place + 1] * ring[..., places - 1 - place : places - 1 - place + rows]
        for place in range(places)
    ]
    return tf.add_n(moved)


def write(
    memory: tf.Tensor, weights: tf.Tensor, erasures: tf.Tensor, additions: tf.Tensor
) -> tf.Tensor:
    """Erase, then add: `M(j) Π_w (1 - w(j) e) + Σ_w w(j) a` over the heads that write.

    Args:
        memory: [B, N, M].
        weights: [B, W, N].
        erasures: [B, W, M].
        additions: [B, W, M].

    Returns:
        [B, N, M].
    """
    for head in range(weights.shape[1]):
        erased = weights[:, head, :, tf.newaxis] * erasures[:, head, tf.newaxis]  # [B, N, M]
        memory *= 1 - erased
    return memory + tf.matmul(weights, additions, transpose_a=True)
