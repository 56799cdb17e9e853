"""Features of pictures by a frozen network, one a worker, many pictures at a time."""

import functools
import itertools
import threading
from collections.abc import Callable, Sequence

import numpy as np

from pipeline.experiment import CorpusFile, PictureOptions
from pipeline.prepare.pictures import picture_path, read_picture
from pipeline.prepare.shards import EncodedPair

_lock = threading.Lock()


class PictureFeatures:
    """Computes the features of the pictures of some pairs, each picture's once.

    Args:
        inputs: Split and description of each input, by index.
        options: Network and sizes.
    """

    def __init__(self, inputs: Sequence[tuple[str, CorpusFile]], options: PictureOptions):
        self._inputs = inputs
        self._options = options

    def __call__(self, pairs: Sequence[EncodedPair]) -> dict[tuple[int, bytes], np.ndarray]:
        """Features float32 [R, C, F] by input and source text.

        Raises:
            UserError: If the network or its weights are not to be had.
        """
        wanted = iter(dict.fromkeys((pair.input, pair.source_text) for pair in pairs))
        found: dict[tuple[int, bytes], np.ndarray] = {}
        while keys := list(itertools.islice(wanted, self._options.batch_size)):
            pictures = [self._read(*key) for key in keys]
            with _lock:  # Threads of one process share the network.
                compute = _network(self._options.backbone, self._options.weights)
            found.update(zip(keys, compute(pictures), strict=True))
        return found

    def _read(self, index: int, name: bytes) -> np.ndarray:
        corpus = self._inputs[index][1]
        return read_picture(picture_path(corpus, name), self._options.max_pixels)


@functools.cache
def _network(backbone: str, weights: str | None) -> Callable[[list[np.ndarray]], np.ndarray]:
    """Features [B, R, C, F] of pictures uint8 [H, W, 3]."""
    # Here, since TensorFlow takes seconds to import and other tasks need none of it.
    import tensorflow as tf

    from models.vision.contract import crop_square
    from models.vision.kinds import make_backbone

    network = make_backbone(backbone, weights)
    network.trainable = False
    network.build((None, network.picture_size, network.picture_size, 3))
    run = tf.function(network, reduce_retracing=True)

    def compute(pictures: list[np.ndarray]) -> np.ndarray:
        squares = [crop_square(tf.constant(each), network.picture_size) for each in pictures]
        return run(tf.stack(squares)).numpy()

    return compute
