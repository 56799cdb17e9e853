"""One version of a model in memory: a SavedModel in a session and a graph of its own.

A v1 session is the executor that TensorFlow Serving uses: it keeps the resources of versions
apart, runs only what the fetched outputs need, and stops a run whose time is over.
"""

import gc
import pathlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations of tokenizers
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.util import deprecation

from models.errors import UserError
from serving import linter
from serving.server.session_rules import DEFAULT_RULES, SessionRules
from serving.server.status import ServingError, from_tensorflow, invalid_argument

# Of the linter's rules, those that TensorFlow Serving enforces itself, by failing the load.
_REFUSED_IN_PRODUCTION = ("python-callback", "xla-function", "unserved-op")


class Runner(Protocol):
    """Contract of what requests run on: a loaded model."""

    @property
    def signatures(self) -> Mapping[str, meta_graph_pb2.SignatureDef]:
        """The signatures of the model, by name."""

    @property
    def checks_method_names(self) -> bool:
        """Whether a signature answers only calls of the method that it names."""

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        timeout_in_ms: int | None = None,
    ) -> list[np.ndarray]:
        """Compute tensors.

        Args:
            feeds: Values by tensor name.
            fetches: Names of the tensors wanted.
            timeout_in_ms: The run is cancelled when it takes longer; None lets it take its time.

        Returns:
            One array a fetch; strings as object arrays of bytes.

        Raises:
            ServingError: With the executor's own code and words.
        """


class SavedModelSession(Runner):
    """A loaded SavedModel.

    `run` may be called from many threads at once.
    """

    def __init__(self, path: pathlib.Path, rules: SessionRules = DEFAULT_RULES):
        """Load the model.

        Args:
            path: Folder of the version.
            rules: What is loaded of it, and how it runs.

        Raises:
            ServingError: If it cannot be loaded, or if TensorFlow Serving could not load it.
        """
        _refuse_what_production_refuses(path, rules.tags)
        self._session_rules = rules
        self._graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=self._graph, config=rules.session_config())
        try:
            self._signatures = _copied(self._load(path, rules.tags).signature_def)
            self._outputs = self._handles()
        except BaseException:
            self.close()
            raise

    @property
    def signatures(self) -> Mapping[str, meta_graph_pb2.SignatureDef]:
        """The signatures of the model, by name."""
        return self._signatures

    @property
    def checks_method_names(self) -> bool:
        """Whether a signature answers only calls of the method that it names."""
        return self._session_rules.check_method_names

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        timeout_in_ms: int | None = None,
    ) -> list[np.ndarray]:
        """Compute tensors; see `Runner.run`."""
        inputs = {self._handle(name): value for name, value in feeds.items()}
        outputs = [self._handle(name) for name in fetches]
        options = config_pb2.RunOptions(timeout_in_ms=timeout_in_ms or 0)
        buffer = pywrap_tf_session.TF_NewBufferFromString(options.SerializeToString())
        try:
            # `Session.run` would check shapes that the real server leaves to the graph, and
            # would wrap the messages of errors.
            values = self._session._call_tf_sessionrun(buffer, inputs, outputs, [], None)
        except tf.errors.OpError as error:
            raise from_tensorflow(error) from None
        finally:
            pywrap_tf_session.TF_DeleteBuffer(buffer)
        return [_as_array(value) for value in values]

    def close(self) -> None:
        """Give the memory back. A run that is under way fails, and no other may follow."""
        self._session.close()
        self._outputs = {}
        # A graph and its operations refer to each other; without this they linger.
        gc.collect()

    def _handle(self, name: str) -> object:
        if name not in self._outputs:
            # The signature of an initialiser names an operation in place of a tensor.
            raise invalid_argument(
                f"Tensor {name}:0, specified in either feed_devices or fetch_devices was not found "
                "in the Graph"
            )
        return self._outputs[name]

    def _load(self, path: pathlib.Path, tags: Sequence[str]) -> meta_graph_pb2.MetaGraphDef:
        try:
            with self._graph.as_default(), deprecation.silence():
                return tf.compat.v1.saved_model.load(self._session, list(tags), str(path))
        except tf.errors.OpError as error:
            raise from_tensorflow(error) from None
        except Exception as error:
            # Loading runs through much of TensorFlow, and a damaged file can fail anywhere in it.
            raise ServingError(
                grpc.StatusCode.UNKNOWN,
                f"{path}: cannot be loaded ({type(error).__name__}: {error}); export it again",
            ) from error

    def _handles(self) -> dict[str, object]:
        names = {
            info.name
            for signature in self.signatures.values()
            for tensors in (signature.inputs, signature.outputs)
            for info in tensors.values()
            if ":" in info.name
        }
        return {name: self._graph.get_tensor_by_name(name)._as_tf_output() for name in names}


def _copied(
    signatures: Mapping[str, meta_graph_pb2.SignatureDef],
) -> dict[str, meta_graph_pb2.SignatureDef]:
    """The signatures on their own: a part of a message would keep the whole graph in memory."""
    copies = {name: meta_graph_pb2.SignatureDef() for name in signatures}
    for name, copy in copies.items():
        copy.CopyFrom(signatures[name])
    return copies


def _refuse_what_production_refuses(path: pathlib.Path, tags: Sequence[str]) -> None:
    try:
        findings = linter.lint(path, tags)
    except UserError as error:
        raise ServingError(grpc.StatusCode.NOT_FOUND, str(error)) from None
    refused = [str(one) for one in findings if one.rule in _REFUSED_IN_PRODUCTION]
    if refused:
        raise ServingError(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{path}: TensorFlow Serving would not load it: " + "; ".join(refused),
        )


def _as_array(value: np.ndarray | np.generic | bytes) -> np.ndarray:
    return np.asarray(value, dtype=object if isinstance(value, bytes) else None)
