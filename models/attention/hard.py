"""Hard attention: one position a query, drawn in training (Xu et al. 2015, section 4.1)."""

from typing import Any

import keras
import tensorflow as tf

from models.attention.contract import Draw, masked_scores, nothing_drawn
from models.attention.soft import ScoredAttention


@keras.saving.register_keras_serializable("seqloom")
class HardAttention(ScoredAttention):
    """A query reads one position: a draw from `softmax(score)` in training, else the likeliest.

    No gradient of a loss reaches the scores through a draw. `extra_loss` gives what to
    add to the loss instead; it must be called once for each training pass.

    The draws come from a generator whose state is a variable, and so is the baseline: a run
    that goes on from a checkpoint draws what it would have drawn.

    Args:
        *args: Of `ScoredAttention`.
        baseline_decay: Share of the old baseline that each batch keeps.
        entropy_weight: Of the entropy of what is drawn from, which is made larger.
        reinforce_weight: Of the estimated gradient.
        **kwargs: Of `ScoredAttention`.
    """

    def __init__(
        self,
        *args: Any,
        baseline_decay: float = 0.9,
        entropy_weight: float = 0.002,
        reinforce_weight: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.baseline_decay = baseline_decay
        self.entropy_weight = entropy_weight
        self.reinforce_weight = reinforce_weight
        self.seed_generator = keras.random.SeedGenerator()

    @property
    def draws(self) -> bool:
        """Positions are drawn in training."""
        return True

    def build(self, *_: Any) -> None:
        """Create the baseline [], a log probability a word, and build the score."""
        super().build()
        self.baseline = self.add_weight(
            shape=(),
            initializer="zeros",
            dtype="float32",
            trainable=False,
            autocast=False,
            aggregation="mean",
            name="baseline",
        )

    def weigh(
        self,
        scores: tf.Tensor,
        query: tf.Tensor,
        mask: tf.Tensor,
        place: tf.Tensor,
        training: bool,
    ) -> tuple[tf.Tensor, Draw]:
        """One at one position of each query, [B, Q, S]."""
        real = mask[:, tf.newaxis, :]  # [B, 1, S]
        finite = masked_scores(scores, real)  # [B, Q, S]
        if training:
            seed = tf.cast(tf.convert_to_tensor(self.seed_generator.next()), tf.int32)  # [2]
            positions = draw_positions(finite, seed)  # [B, Q]
        else:
            positions = tf.argmax(finite, -1, output_type=tf.int32)  # [B, Q]
        here = tf.equal(tf.range(tf.shape(scores)[2]), positions[:, :, tf.newaxis]) & real
        weights = tf.cast(here, tf.float32)  # [B, Q, S]
        if not training:
            return weights, nothing_drawn(query)
        logs = tf.where(real, tf.nn.log_softmax(finite), 0.0)  # [B, Q, S]
        probabilities = tf.where(real, tf.exp(logs), 0.0)  # [B, Q, S]
        return weights, Draw(
            tf.reduce_sum(weights * logs, -1), -tf.reduce_sum(probabilities * logs, -1)
        )

    def extra_loss(
        self, draw: Draw, losses: tf.Tensor, real: tf.Tensor, later: bool = True
    ) -> tf.Tensor:
        """What brings the gradient of the expected loss to the scores (Williams 1992).

        Minus the entropy, and minus the log probability of each draw times its reward: the log
        probability of the words that the draw had a part in, less the baseline. The baseline is
        the moving average of a word's log probability over the batches before, so that the
        estimate stays unbiased. Arguments are those of the contract.
        """
        words = tf.cast(real > 0.0, tf.float32)  # [B, T]
        rewards = -tf.stop_gradient(losses) * words  # [B, T]
        gains = rewards - self.baseline.value * words  # [B, T]
        parts = words  # [B, T]: how many words a draw has a part in
        if later:
            gains, parts = (tf.cumsum(each, 1, reverse=True) for each in (gains, parts))
        self._expect(tf.reduce_sum(rewards), tf.reduce_sum(words))
        counts = tf.reduce_max(real, 1, keepdims=True) * tf.cast(parts > 0.0, tf.float32)  # [B, T]
        estimate = self.reinforce_weight * gains * draw.log_probability  # [B, T]
        return -tf.reduce_sum(counts * (estimate + self.entropy_weight * draw.entropy))

    def _expect(self, rewards: tf.Tensor, words: tf.Tensor) -> None:
        """Count the rewards of a batch's words, both [], into the baseline."""
        decay = tf.where(words > 0.0, self.baseline_decay, 1.0)
        mean = rewards / tf.maximum(words, 1.0)
        self.baseline.assign(decay * self.baseline.value + (1.0 - decay) * mean)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "baseline_decay": self.baseline_decay,
            "entropy_weight": self.entropy_weight,
            "reinforce_weight": self.reinforce_weight,
        }


def draw_positions(scores: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Positions drawn from `softmax(scores)`, int32 [B, Q].

    The largest score is taken after noise of Gumbel's distribution is added to each (Maddison et
    al. 2014), which XLA compiles too.

    Args:
        scores: Float32 [B, Q, S].
        seed: Int32 [2]; the same seed draws the same.
    """
    uniform = tf.random.stateless_uniform(tf.shape(scores), seed, 1e-20, 1.0)  # [B, Q, S]
    return tf.argmax(scores - tf.math.log(-tf.math.log(uniform)), -1, output_type=tf.int32)
