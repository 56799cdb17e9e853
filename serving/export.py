"""From a trained model to a SavedModel that a server answers from."""

import pathlib
from collections.abc import Mapping, Sequence

import tensorflow as tf

from serving import linter
from serving.graph_batching import GraphBatching
from serving.services.contract import Service
from serving.warmup import Request, write_warmup


def export_service(
    service: Service,
    folder: pathlib.Path,
    model_name: str,
    warmup_requests: Mapping[str, Sequence[Request]],
    batching: GraphBatching | None = None,
) -> None:
    """Write a SavedModel, with its warm-up requests, and lint it.

    Args:
        service: The functions behind its signatures.
        folder: Where to write; not yet a version folder that a server looks at.
        model_name: Name it will be served under.
        warmup_requests: For each signature the requests that a server replays while it loads
            the model.
        batching: How requests of one signature are run together, inside the graph; None runs each
            alone.

    Raises:
        UserError: If the linter finds what production would refuse.
    """
    tf.saved_model.save(service, str(folder), signatures=service.signatures(batching))
    if any(warmup_requests.values()):
        write_warmup(folder, warmup_requests, model_name)
    linter.check(folder)
