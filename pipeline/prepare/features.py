"""What is kept of pictures: features by a frozen network, one a worker, many at a time; pixels."""

import functools
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.experiment import CorpusFile, PictureOptions
from pipeline.places import Place
from pipeline.prepare.picture_files import Kind, RowsWriter, file_name
from pipeline.prepare.pictures import picture_path, read_picture

_SCALED_AT_ONCE = 2**24  # values; each takes four bytes, and four more where it is scaled

_lock = threading.Lock()

PictureKey = tuple[int, bytes]  # index of the input, and the picture's name in it


class PictureStore:
    """Writes the pictures of a shard, each picture once.

    Args:
        inputs: Split and description of each input, by index.
        options: Network and sizes.
        folder: Where.
    """

    def __init__(
        self,
        inputs: Sequence[tuple[str, CorpusFile]],
        options: PictureOptions,
        folder: Place,
    ):
        self._inputs = inputs
        self._options = options
        self._folder = folder

    def rows(self, pieces: int) -> int:
        """A picture has one row, whatever is asked about it."""
        return 1

    def write(self, shard: str, split: str, keys: Mapping[PictureKey, int]) -> list[Place]:
        """Write the files of a shard, a row a picture, in the order of `keys`.

        Args:
            shard: Its name.
            split: Of the shard.
            keys: The pictures, and the rows of each.

        Returns:
            The files.

        Raises:
            UserError: If the network or its weights are not to be had.
        """
        writers = {
            kind: RowsWriter(self._folder / file_name(shard, kind), len(keys))
            for kind in self._kinds(split)
        }
        wanted = iter(keys)
        while some := list(itertools.islice(wanted, self._options.batch_size)):
            network = network_of(self._options)
            squares = network.crop([self._picture(*key) for key in some])
            if "features" in writers:
                writers["features"].add(network.compute(squares))
            if "pixels" in writers:
                writers["pixels"].add(np.rint(squares).astype(np.uint8))
        return [path for writer in writers.values() for path in writer.close()]

    def _kinds(self, split: str) -> list[Kind]:
        if self._options.fine_tune:
            return ["pixels"]
        # Validations show pictures; those of the other splits would lie there for nothing.
        return ["features", "pixels"] if split == "valid" else ["features"]

    def _picture(self, index: int, name: bytes) -> np.ndarray:
        corpus = self._inputs[index][1]
        return read_picture(picture_path(corpus, name), self._options.max_pixels)


class Network(NamedTuple):
    """A network as pictures are made ready for it, and go through it."""

    crop: Callable[[list[np.ndarray]], np.ndarray]  # uint8 [H, W, 3] to float32 [B, S, S, 3]
    compute: Callable[[np.ndarray], np.ndarray]  # float32 [B, S, S, 3] to [B, R, C, F]


def network_of(options: PictureOptions) -> Network:
    """The network that an experiment names."""
    # A network that is trained is another one by then; its size alone matters here.
    weights = None if options.fine_tune else options.weights
    with _lock:  # Threads of one process share the network.
        return _network(options.backbone, weights)


@functools.cache
def _network(backbone: str, weights: str | None) -> Network:
    # Here, since TensorFlow takes seconds to import and other tasks need none of it.
    import tensorflow as tf

    from models.vision.contract import crop_square
    from models.vision.kinds import make_backbone

    network = make_backbone(backbone, weights)
    network.trainable = False

    @functools.cache
    def run() -> Callable[[tf.Tensor], tf.Tensor]:
        # Not before it is asked for, since a network that is trained elsewhere only crops.
        network.build((None, network.picture_size, network.picture_size, 3))
        return tf.function(network, reduce_retracing=True)

    def crop(pictures: list[np.ndarray]) -> np.ndarray:
        alike = len({each.shape for each in pictures}) == 1  # as frames of a clip are
        if alike and len(pictures) * pictures[0].size <= _SCALED_AT_ONCE:
            return crop_square(tf.constant(np.stack(pictures)), network.picture_size).numpy()
        squares = [crop_square(tf.constant(each), network.picture_size) for each in pictures]
        return tf.stack(squares).numpy()

    def compute(squares: np.ndarray) -> np.ndarray:
        with _lock:
            call = run()
        return call(tf.constant(squares)).numpy().astype(np.float32)

    return Network(crop, compute)
