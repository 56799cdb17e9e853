"""Experiment: every choice of a run in one typed document.

Each default lives here and nowhere else. `pipeline/experiment_file.py` reads the YAML form
and applies `--set`; `configs/reference.yaml` shows every key with its default.
"""

from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field, NonNegativeFloat, PositiveFloat

# More than TensorFlow's int32 holds no count has a use for.
_MOST = 2**31 - 1
PositiveInt = Annotated[int, Field(gt=0, le=_MOST)]
NonNegativeInt = Annotated[int, Field(ge=0, le=_MOST)]
ShardCount = Annotated[int, Field(gt=0, le=99_999)]  # As many as five digits of a name tell.
# The marks and one more; SentencePiece fails without a reason on sizes beyond reason.
VocabularySize = Annotated[int, Field(ge=5, le=1_000_000)]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
# A name becomes a folder's, so it is neither `.` nor `..`, and a scope's in TensorFlow's graphs.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


class Section(pydantic.BaseModel):
    """Base of all sections: unknown keys are refused and nothing changes after reading."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        # Pydantic takes true for 1, and YAML takes yes and on for true.
        wanted = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and wanted is not bool:
            raise ValueError(
                f"{str(value).lower()} is not expected here; YAML reads yes, no, on and off so, "
                f"unless they are quoted"
            )
        return value


class CorpusFile(Section):
    """One input of a split.

    `parallel` reads `source` and `target`, two files with a sentence a line. `tsv` and
    `jsonl` read `path`. Names ending in `.gz` are read as gzip; names ending in `.zip` are
    not read.
    """

    format: Literal["parallel", "tsv", "jsonl"] = "parallel"
    source: str | None = Field(None, description="File of source sentences (parallel).")
    target: str | None = Field(None, description="File of target sentences (parallel).")
    path: str | None = Field(None, description="The file (tsv, jsonl).")
    source_column: PositiveInt = Field(1, description="Column of the source, from 1 (tsv).")
    target_column: PositiveInt = Field(2, description="Column of the target, from 1 (tsv).")
    source_key: str = Field("source", description="Key of the source (jsonl).")
    target_key: str = Field("target", description="Key of the target (jsonl).")

    @pydantic.model_validator(mode="after")
    def _has_the_paths_of_its_format(self):
        wanted = ("source", "target") if self.format == "parallel" else ("path",)
        for name in ("source", "target", "path"):
            given = getattr(self, name) is not None
            if name in wanted and not given:
                raise ValueError(f"format {self.format!r} needs the key {name!r}")
            if name not in wanted and given:
                raise ValueError(f"format {self.format!r} does not take the key {name!r}")
        return self


class HoldOut(Section):
    """Shares of the training input set aside when no valid or test input is named.

    A sentence goes by the hash of one side, so that no sentence of that side stands in
    two splits.
    """

    valid: Fraction = Field(0.0, description="Share that becomes the valid split.")
    test: Fraction = Field(0.0, description="Share that becomes the test split.")
    side: Literal["source", "target"] = Field("source", description="Side that is hashed.")


class Cleaning(Section):
    """What `prepare` drops. Lengths are in pieces, end marks not counted.

    Pairs that are empty, not UTF-8 or hold control characters are dropped from every split;
    the other rules hold for the training split alone, so that a test set stays whole.
    """

    max_source_length: PositiveInt = Field(100, description="Pieces of a source sentence.")
    max_target_length: PositiveInt = Field(100, description="Pieces of a target sentence.")
    too_long: Literal["drop", "truncate"] = Field("drop", description="Fate of longer ones.")
    max_length_ratio: float = Field(6.0, ge=1.0, description="Longer side over shorter side.")
    drop_identical: bool = Field(False, description="Drop pairs whose two sides are equal.")
    drop_duplicates: bool = Field(True, description="Keep the first of equal pairs.")


class DataSection(Section):
    """The corpora and how they become records."""

    source_language: str = Field("source", description="Of the source; a label only.")
    target_language: str = Field("target", description="Of the target; chooses BLEU's tokenizer.")
    train: list[CorpusFile] = Field(min_length=1, description="Inputs of the training split.")
    valid: list[CorpusFile] = Field([], description="Inputs of the valid split.")
    test: list[CorpusFile] = Field([], description="Inputs of the test split.")
    hold_out: HoldOut = HoldOut()
    cleaning: Cleaning = Cleaning()
    shards: ShardCount = Field(8, description="Record files of the training split.")
    evaluation_shards: ShardCount = Field(1, description="Record files of valid and of test.")
    compression: Literal["none", "gzip"] = Field("none", description="Of the record files.")

    @pydantic.model_validator(mode="after")
    def _one_origin_for_each_split(self):
        for name in ("valid", "test"):
            if getattr(self, name) and getattr(self.hold_out, name):
                raise ValueError(f"{name} has inputs and a hold_out share; keep one of the two")
        if self.hold_out.valid + self.hold_out.test >= 1.0:
            raise ValueError("hold_out leaves nothing for training; lower its shares")
        return self


class VocabularySection(Section):
    """SentencePiece models trained on a bounded sample of the training split."""

    source_size: VocabularySize = Field(8000, description="Pieces at most, marks included.")
    target_size: VocabularySize = Field(8000, description="Likewise; ignored when shared.")
    shared: bool = Field(False, description="One vocabulary of source_size for both sides.")
    algorithm: Literal["unigram", "bpe", "char", "word"] = "unigram"
    character_coverage: float = Field(0.9995, ge=0.98, le=1.0, description="Share of characters.")
    byte_fallback: bool = Field(False, description="Spell unknown characters as bytes.")
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = "nmt_nfkc"
    sample_sentences: PositiveInt = Field(200_000, description="Sentences sampled a side.")


class AttentionOptions(Section):
    """Attention of the decoder over the encoder's states."""

    score: Literal["dot", "general", "additive"] = "general"
    units: PositiveInt | None = Field(None, description="Width of additive; decoder's if null.")


class EncoderOptions(Section):
    """The recurrent encoder."""

    layers: PositiveInt = 1
    units: PositiveInt = Field(256, description="Units a direction.")
    bidirectional: bool = True
    residual: bool = Field(False, description="Add a layer's input to its output.")


class DecoderOptions(Section):
    """The recurrent decoder."""

    kind: Literal["luong", "bahdanau"] = Field(
        "luong",
        description="luong attends after the RNN; bahdanau before it, from the last state.",
    )
    layers: PositiveInt = 1
    units: PositiveInt = 512
    residual: bool = False
    input_feeding: bool = Field(
        False, description="Feed the attentional state into the next step (luong); it then steps."
    )
    bridge: Literal["zero", "copy", "dense"] = Field(
        "dense", description="How the encoder's final state becomes the decoder's first."
    )


class ModelSection(Section):
    """The network."""

    task: Literal["translation"] = "translation"
    cell: Literal["lstm", "gru"] = "lstm"
    embedding_size: PositiveInt = 256
    dropout: Fraction = Field(0.2, description="Between layers and before the output.")
    encoder: EncoderOptions = EncoderOptions()
    decoder: DecoderOptions = DecoderOptions()
    attention: AttentionOptions = AttentionOptions()
    initializer_range: PositiveFloat = Field(0.1, description="Weights start in U(-r, r).")


class LossOptions(Section):
    """The training loss. Validation and serving always use the full softmax."""

    kind: Literal["full", "nce"] = "full"
    label_smoothing: Fraction = Field(0.0, description="Of the full softmax.")
    noise_words: PositiveInt = Field(256, description="Noise words a batch (nce).")
    distortion: float = Field(
        0.75, ge=0.0, le=1.0, description="Power of the unigram counts the noise is drawn from."
    )


class ScheduleOptions(Section):
    """Learning rate over steps: linear warm-up, then a decay."""

    decay: Literal["constant", "exponential", "cosine", "inverse_sqrt"] = "constant"
    warmup_steps: NonNegativeInt = 0
    decay_start: NonNegativeInt = Field(0, description="First step of exponential or cosine.")
    decay_steps: PositiveInt = Field(10_000, description="Of one decay_rate, or of the cosine.")
    decay_rate: PositiveFloat = Field(0.5, description="Factor of the exponential decay.")
    minimum: NonNegativeFloat = Field(0.0, description="The rate never falls below it.")


class ClipOptions(Section):
    """Gradient clipping, after the gradients of all replicas are summed."""

    kind: Literal["none", "value", "norm", "global_norm"] = "global_norm"
    threshold: PositiveFloat = 5.0


class EarlyStopping(Section):
    """Stop when the best metric has not improved."""

    patience: NonNegativeInt = Field(0, description="Validations without gain; 0 never stops.")
    minimum_gain: NonNegativeFloat = Field(0.0, description="A smaller gain is none.")


class TrainSection(Section):
    """Optimisation, validation and checkpoints."""

    max_steps: PositiveInt = Field(20_000, description="Steps at most.")
    max_epochs: PositiveInt | None = Field(None, description="Epochs at most; no limit if null.")
    batch_tokens: PositiveInt = Field(
        2048, description="Rows times the longer side, pads included, at most."
    )
    shuffle_pool: PositiveInt = Field(65_536, description="Pairs sorted into batches at a time.")
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: PositiveFloat = 1e-3
    schedule: ScheduleOptions = ScheduleOptions()
    clip: ClipOptions = ClipOptions()
    loss: LossOptions = LossOptions()
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    jit_compile: bool = Field(False, description="Compile the step by XLA; pads to few shapes.")
    log_every: PositiveInt = Field(50, description="Steps between two lines and two scalars.")
    validate_every: PositiveInt = Field(1000, description="Steps between two validations.")
    validation_sentences: PositiveInt = Field(500, description="Sentences translated for BLEU.")
    samples: NonNegativeInt = Field(5, description="Translations and attention pictures shown.")
    checkpoint_every: PositiveInt = Field(1000, description="Steps between two checkpoints.")
    keep_checkpoints: PositiveInt = 3
    best_metric: Literal["bleu", "chrf", "loss", "perplexity", "accuracy"] = "bleu"
    early_stopping: EarlyStopping = EarlyStopping()


class SearchSection(Section):
    """How a translation is found; `evaluate` and the exported signatures use it."""

    kind: Literal["greedy", "beam"] = "beam"
    beam_size: PositiveInt = 5
    length_penalty: NonNegativeFloat = Field(
        1.0, description="Power a of ((5 + length) / 6) ** a that divides the log probability."
    )
    max_length_factor: PositiveFloat = Field(
        2.0, description="Target pieces at most: factor times source pieces plus max_length_extra."
    )
    max_length_extra: NonNegativeInt = 10
    batch_size: PositiveInt = Field(32, description="Sentences a search.")


class ExportSection(Section):
    """The SavedModel."""

    model_name: Name = "translation"
    nbest: PositiveInt = Field(5, description="Translations of the signature nbest.")
    max_source_length: PositiveInt = Field(200, description="Pieces of a request that are kept.")
    warmup_requests: NonNegativeInt = Field(
        8, le=250, description="Sentences a server replays through each signature while loading."
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

    runner: str = Field("FnApiRunner", description="Any Beam runner, or FnApiRunner.")
    running_mode: Literal["multi_processing", "multi_threading", "in_memory"] = "multi_processing"
    workers: NonNegativeInt = Field(0, description="Beam workers on this machine; 0 is one a core.")
    beam_options: list[str] = Field([], description="Further flags, passed to Beam as they are.")
    intra_op_threads: NonNegativeInt = Field(0, description="TensorFlow's; 0 lets it choose.")
    inter_op_threads: NonNegativeInt = Field(0, description="TensorFlow's; 0 lets it choose.")


class Experiment(Section):
    """One run, from corpora to server.

    Attributes mirror the top-level keys of the YAML.
    """

    name: Name = Field(description="Name of the run.")
    workspace: str | None = Field(None, description="Folder of the run; runs/<name> if null.")
    seed: NonNegativeInt = Field(1, description="Of data order, weights, dropout and noise.")
    data: DataSection
    vocabulary: VocabularySection = VocabularySection()
    model: ModelSection = ModelSection()
    train: TrainSection = TrainSection()
    search: SearchSection = SearchSection()
    export: ExportSection = ExportSection()
    serving: ServingSection = ServingSection()
    cluster: ClusterSection = ClusterSection()
