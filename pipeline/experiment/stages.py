"""The sections of the other stages: search, export, serving and cluster."""

from typing import Literal

import pydantic
from pydantic import Field, NonNegativeFloat, PositiveFloat

from pipeline.experiment.section import (
    Name,
    NonNegativeInt,
    PositiveInt,
    Section,
)

# What Beam's names of runners become: one name for each, however it is spelled.
_RUNNERS = {"fnapi": "local", "direct": "local"} | {
    name: name for name in ("local", "portable", "flink", "spark", "dataflow", "slurm")
}


class SearchSection(Section):
    """How a translation is found; `evaluate` and the exported signatures use it."""

    kind: Literal["greedy", "beam", "sampling"] = "beam"
    beam_size: PositiveInt = 5
    length_penalty: NonNegativeFloat = Field(
        1.0, description="Power a of ((5 + length) / 6) ** a that divides the log probability."
    )
    coverage_penalty: NonNegativeFloat = Field(
        0.0, description="Weight b of b * sum(log(min(attention, 1))), which is added to it."
    )
    no_repeat_ngram_size: NonNegativeInt = Field(
        0, description="Pieces of n-grams that a translation holds once at most; 0 for any."
    )
    min_length: NonNegativeInt = Field(
        0, description="Target pieces at least, as far as the most allows."
    )
    max_length_factor: PositiveFloat = Field(
        2.0, description="Target pieces at most: factor times source pieces plus max_length_extra."
    )
    max_length_extra: NonNegativeInt = 10
    temperature: NonNegativeFloat = Field(
        1.0, description="Divides logits (sampling); 0 takes the likeliest piece."
    )
    top_k: NonNegativeInt = Field(0, description="Likeliest pieces drawn from; 0 for all.")
    top_p: float = Field(
        1.0, ge=0.0, le=1.0, description="Joint probability of the likeliest drawn from."
    )
    seed: NonNegativeInt = Field(1, description="Of the draws (sampling).")
    batch_size: PositiveInt = Field(32, description="Sentences a search.")
    ensemble: list[str] = Field(
        [], description="Workspaces of other runs, whose best models take part in each word."
    )


class GraphBatchingSection(Section):
    """Requests of one signature that share a run, inside the exported graph."""

    max_batch_size: PositiveInt = Field(32, description="Rows; a longer request runs in parts.")
    batch_timeout_micros: NonNegativeInt = Field(
        2000, description="A batch waits so long for more, and so does a lone caller."
    )
    num_batch_threads: PositiveInt = Field(2, description="Batches of a signature run at once.")
    max_enqueued_batches: PositiveInt = Field(
        100, description="Batches of a signature that wait; further requests are refused."
    )


class ExportSection(Section):
    """The SavedModel."""

    model_name: Name = "translation"
    nbest: PositiveInt = Field(5, description="Translations of the signature nbest.")
    max_source_length: PositiveInt = Field(200, description="Pieces of a request that are kept.")
    max_tokens: PositiveInt = Field(
        1000, description="Pieces that generate gives at most, whatever a request asks for."
    )
    warmup_requests: NonNegativeInt = Field(
        8, le=250, description="Sentences a server replays through each signature while loading."
    )
    batching: GraphBatchingSection | None = Field(
        None, description="Batches made inside the graph, by any server; null for none."
    )


class ServingSection(Section):
    """The server that `seqloom serve` starts."""

    engine: Literal["auto", "embedded", "tensorflow"] = Field(
        "auto", description="auto takes tensorflow_model_server when it is on PATH."
    )
    host: str = Field("127.0.0.1", description="Address the ports are bound to.")
    port: int = Field(8500, ge=0, le=65535, description="gRPC; 0 takes a free one.")
    rest_api_port: int = Field(8501, ge=0, le=65535, description="REST; 0 takes a free one.")
    file_system_poll_wait_seconds: PositiveFloat = Field(1.0, description="Between two looks.")
    threads: PositiveInt = Field(16, description="Requests run at once.")


class ClusterSection(Section):
    """The machines: Beam's runner and TensorFlow's threads."""

    runner: str = Field("local", description="A name of PRESETS, slurm, or any Beam runner.")
    running_mode: Literal["multi_processing", "multi_threading", "in_memory"] = "multi_processing"
    workers: NonNegativeInt = Field(0, description="Beam workers on this machine; 0 is one a core.")
    array_jobs: PositiveInt = Field(4, description="Jobs that share the work (slurm).")
    beam_options: list[str] = Field([], description="Further flags, passed to Beam as they are.")
    intra_op_threads: NonNegativeInt = Field(0, description="TensorFlow's; 0 lets it choose.")
    inter_op_threads: NonNegativeInt = Field(0, description="TensorFlow's; 0 lets it choose.")
    hang_seconds: PositiveFloat = Field(
        600.0, description="Without a step after which one of many workers ends as hanging."
    )

    @pydantic.field_validator("runner")
    @classmethod
    def _one_name_for_each_runner(cls, value: str) -> str:
        return _RUNNERS.get(value.lower().removesuffix("runner"), value)
