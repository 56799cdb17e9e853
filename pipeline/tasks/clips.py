"""What all tasks share that read clips."""

import abc
from typing import Any

import tensorflow as tf

from pipeline.tasks.contract import Task


class ClipTask(Task, abc.ABC):
    """Contract: the source is a clip, whose source ids number its frames."""

    @property
    def asks(self) -> dict[str, Any]:
        """The frames."""
        return {"pictures": "pixels", "clips": True}

    @property
    def encoder(self) -> dict[str, Any]:
        """What `models.clips.ClipEncoder` takes besides what all networks share."""
        pictures = self.experiment.data.pictures
        backbone = {"name": pictures.backbone, "weights": pictures.weights}
        return {**self.experiment.model.encoder.model_dump(), "backbone": backbone}

    @staticmethod
    def clips(source: tf.RaggedTensor, pictures: tf.Tensor | None) -> dict[str, tf.Tensor]:
        """What the encoder reads of a batch."""
        assert pictures is not None
        return {"pixels": pictures, "frames": tf.cast(source.row_lengths(), tf.int32)}
