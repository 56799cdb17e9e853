"""What is loaded of a version, and how its graph runs."""

import dataclasses
import pathlib

from tensorflow.core.protobuf import config_pb2

from serving.saved_model_graph import SERVE_TAG
from serving.server.options import ServerOptions
from serving.server.text_config import read_text_proto


@dataclasses.dataclass(frozen=True)
class SessionRules:
    """The rules of a session.

    Attributes:
        tags: Tags of the graph that is loaded; it has these and no others.
        check_method_names: A signature answers only calls of the method that it names. The real
            server asks for that by a flag alone: graphs of TensorFlow 2 all name Predict.
        intra_op_threads: Threads of one operation; 0 leaves it to `config`.
        inter_op_threads: Operations that run at once; 0 leaves it to `config`.
        gpu_memory_fraction: Most of the GPU's memory to take; 0 leaves it to `config`.
        config: TensorFlow's own settings.
    """

    tags: tuple[str, ...] = (SERVE_TAG,)
    check_method_names: bool = False
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    gpu_memory_fraction: float = 0.0
    config: config_pb2.ConfigProto = dataclasses.field(default_factory=config_pb2.ConfigProto)

    def session_config(self) -> config_pb2.ConfigProto:
        """TensorFlow's settings of a session with these rules."""
        config = config_pb2.ConfigProto()
        config.CopyFrom(self.config)
        if self.intra_op_threads:
            config.intra_op_parallelism_threads = self.intra_op_threads
        if self.inter_op_threads:
            config.inter_op_parallelism_threads = self.inter_op_threads
        if self.gpu_memory_fraction:
            config.gpu_options.per_process_gpu_memory_fraction = self.gpu_memory_fraction
        # Two versions are in memory during a change of versions: neither may take the whole GPU.
        config.gpu_options.allow_growth = True
        return config


DEFAULT_RULES = SessionRules()


def session_rules(options: ServerOptions) -> SessionRules:
    """The rules that the options ask for.

    Raises:
        UserError: If the file of TensorFlow's settings is none.
    """
    # As there, one of the two narrower options switches the wider off.
    narrow = options.intra_op_threads or options.inter_op_threads
    return SessionRules(
        tags=tuple(options.saved_model_tags.split(",")),
        check_method_names=options.check_method_names,
        intra_op_threads=options.intra_op_threads if narrow else options.session_threads,
        inter_op_threads=options.inter_op_threads if narrow else options.session_threads,
        gpu_memory_fraction=options.gpu_memory_fraction,
        config=_read_config(options.session_config_file),
    )


def _read_config(path: pathlib.Path | None) -> config_pb2.ConfigProto:
    if path is None:
        return config_pb2.ConfigProto()
    return read_text_proto("--tensorflow_session_config_file", path, config_pb2.ConfigProto)
