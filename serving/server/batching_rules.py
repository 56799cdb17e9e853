"""How requests are put together into batches, as `--batching_parameters_file` says it."""

import dataclasses
import os
import pathlib
from typing import Any

from models.errors import UserError
from serving.server.text_config import BatchingParameters, read_text_proto

_FLAG = "--batching_parameters_file"
_FILE_OF_MODEL = "batching_params.pbtxt"


@dataclasses.dataclass(frozen=True)
class BatchingRules:
    """The parameters that are heeded, with TensorFlow Serving's defaults.

    Attributes:
        max_batch_size: Most rows of a request, and of a batch where long requests are not split.
        batch_timeout_micros: A batch waits so long for more requests, counted from its first.
        max_enqueued_batches: Batches of one signature that may wait; further requests are refused.
        num_batch_threads: Batches of one version that run at once.
        allowed_batch_sizes: A batch is filled up to the next of these; none leaves it as it is.
        thread_pool_name: What metrics call the threads that run batches.
        max_execution_batch_size: Most rows of a batch where longer requests are split; 0 leaves
            them whole.
        pad_variable_length_inputs: Inputs of other lengths than the longest are padded.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = os.cpu_count() or 1
    allowed_batch_sizes: tuple[int, ...] = ()
    thread_pool_name: str = "model_server_batch_threads"
    max_execution_batch_size: int = 0
    pad_variable_length_inputs: bool = False

    @property
    def most_rows(self) -> int:
        """Most rows of a batch."""
        return self.max_execution_batch_size or self.max_batch_size

    def padded(self, size: int) -> int:
        """The number of rows that a batch is filled up to."""
        return next((allowed for allowed in self.allowed_batch_sizes if allowed >= size), size)


def read_rules(path: pathlib.Path | None) -> BatchingRules:
    """Read the file; without one, the defaults.

    Raises:
        UserError: If it is no `BatchingParameters`, or what it asks for is not possible here.
    """
    return _read(_FLAG, path) if path else BatchingRules()


def rules_of_model(version: pathlib.Path, common: BatchingRules) -> BatchingRules | None:
    """Read the file that a version brings of its own.

    Args:
        version: Folder of the version.
        common: The rules of the server, whose threads are used whatever the version asks for.

    Returns:
        Its rules; None if it brings none, and then no batches are made of its requests.

    Raises:
        UserError: As of `read_rules`.
    """
    path = version / _FILE_OF_MODEL
    if not path.exists():
        return None
    return dataclasses.replace(
        _read(_FILE_OF_MODEL, path),
        num_batch_threads=common.num_batch_threads,
        thread_pool_name=common.thread_pool_name,
    )


def _read(asked_by: str, path: pathlib.Path) -> BatchingRules:
    config = read_text_proto(asked_by, path, BatchingParameters)
    names = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
    given = {name: getattr(config, name).value for name in names if config.HasField(name)}
    for name, value in given.items():
        least = 0 if name == "batch_timeout_micros" else 1
        if value < least:
            raise UserError(f"{asked_by}: {path}: {name} is {value}; it must be at least {least}")
    rules = BatchingRules(
        **given,
        max_execution_batch_size=_split_size(asked_by, path, config),
        pad_variable_length_inputs=config.pad_variable_length_inputs,
        allowed_batch_sizes=tuple(config.allowed_batch_sizes),
        # A file that leaves the name out gets another one than no file does, as there.
        thread_pool_name=config.thread_pool_name.value or "batch_threads",
    )
    _check_allowed(asked_by, path, rules)
    return rules


def _split_size(asked_by: str, path: pathlib.Path, config: Any) -> int:
    """Rows of a batch where longer requests are split; 0 where they are not."""
    size = config.max_execution_batch_size.value
    if not config.enable_large_batch_splitting.value:
        if size:
            raise UserError(
                f"{asked_by}: {path}: max_execution_batch_size is set, and "
                "enable_large_batch_splitting, which heeds it, is not; set both"
            )
        return 0
    most = config.max_batch_size.value or BatchingRules.max_batch_size
    if config.HasField("max_execution_batch_size") and not 1 <= size <= most:
        raise UserError(
            f"{asked_by}: {path}: max_execution_batch_size is {size}; it must be from 1 to "
            f"max_batch_size, {most}"
        )
    return size


def _check_allowed(asked_by: str, path: pathlib.Path, rules: BatchingRules) -> None:
    sizes = rules.allowed_batch_sizes
    if not sizes:
        return
    if sizes[0] < 1 or any(low >= high for low, high in zip(sizes, sizes[1:], strict=False)):
        raise UserError(
            f"{asked_by}: {path}: allowed_batch_sizes entries must be monotonically increasing, "
            f"from 1 on; they are {list(sizes)}"
        )
    if sizes[-1] != rules.most_rows:
        name = "max_execution_batch_size" if rules.max_execution_batch_size else "max_batch_size"
        raise UserError(
            f"{asked_by}: {path}: Last entry in allowed_batch_sizes must match {name}; "
            f"last entry was {sizes[-1]}; expected {rules.most_rows}"
        )
