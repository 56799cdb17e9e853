"""Experiment: every choice of a run in one typed document.

Each default lives here and nowhere else. `pipeline/experiment_file.py` reads the YAML form
and applies `--set`; `configs/reference.yaml` shows every key with its default.
"""

from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field, NonNegativeFloat, PositiveFloat

from models.cells.options import check_cell_options
from models.errors import UserError

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

    `parallel` reads `source` and `target`, two files with a sentence a line. All others read
    `path`: `tsv` and `jsonl` have a pair a line, `text` has a text a line and no source,
    `conllu` (Universal Dependencies) has a sentence or a document in many lines, `babi` stories
    with questions in them, `dialogue` a turn a line and blank lines between conversations, and
    `documents` is `jsonl` whose texts may have many lines, and questions about them. Names
    ending in `.gz` are read as gzip; names ending in `.zip` are not read.
    """

    format: Literal[
        "parallel", "tsv", "jsonl", "text", "conllu", "babi", "dialogue", "documents"
    ] = "parallel"
    source: str | None = Field(None, description="File of source sentences (parallel).")
    target: str | None = Field(None, description="File of target sentences (parallel).")
    path: str | None = Field(None, description="The file (all but parallel).")
    source_column: PositiveInt = Field(1, description="Column of the source, from 1 (tsv).")
    target_column: PositiveInt = Field(2, description="Column of the target, from 1 (tsv).")
    source_key: str = Field("source", description="Key of the source (jsonl, documents).")
    target_key: str = Field("target", description="Key of the target (jsonl, documents).")
    question_key: str | None = Field(
        None, description="Key of the question about the source; none if null (documents)."
    )
    context_turns: PositiveInt = Field(
        3, description="Turns before a reply that are its source, at most (dialogue)."
    )
    column: Literal["lemma", "upos", "xpos", "feats", "deprel"] = Field(
        "upos", description="Column of the tags (conllu)."
    )
    unit: Literal["sentence", "document"] = Field("sentence", description="A record (conllu).")
    label: Literal["genre"] | None = Field(
        None, description="Target in place of tags: the id's part before its first dash (conllu)."
    )

    @pydantic.model_validator(mode="after")
    def _has_the_paths_of_its_format(self):
        wanted = ("source", "target") if self.format == "parallel" else ("path",)
        for name in ("source", "target", "path"):
            given = getattr(self, name) is not None
            if name in wanted and not given:
                raise ValueError(f"format {self.format!r} needs the key {name!r}")
            if name not in wanted and given:
                raise ValueError(f"format {self.format!r} does not take the key {name!r}")
        if self.format == "conllu" and self.unit == "document" and self.label is None:
            raise ValueError("unit 'document' has no tags; set label to genre, or unit to sentence")
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
    the other rules hold for the training split alone, so that a test set stays whole. The ratio
    is a rule of translation.
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
    order: Literal["shuffled", "corpus"] = Field(
        "shuffled",
        description="corpus keeps lines, blank ones too, in their order, for language models.",
    )
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

    @pydantic.model_validator(mode="after")
    def _repeats_of_a_corpus_in_order(self):
        if self.order == "corpus" and self.cleaning.drop_duplicates:
            raise ValueError(
                "order 'corpus' keeps lines that come again; set cleaning.drop_duplicates to false"
            )
        return self


class VocabularySection(Section):
    """Vocabularies made from a bounded sample of the training split.

    `unigram` and `bpe` are SentencePiece's. `word` parts at ASCII white space, `character` and
    `byte` not at all; these three take texts as they are, and `character_coverage`,
    `byte_fallback` and `normalization` do not touch them.
    """

    source_size: VocabularySize = Field(8000, description="Pieces at most, marks included.")
    target_size: VocabularySize = Field(8000, description="Likewise; ignored when shared.")
    shared: bool = Field(False, description="One vocabulary of source_size for both sides.")
    algorithm: Literal["unigram", "bpe", "word", "character", "byte"] = "unigram"
    character_coverage: float = Field(0.9995, ge=0.98, le=1.0, description="Share of characters.")
    byte_fallback: bool = Field(False, description="Spell unknown characters as bytes.")
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = "nmt_nfkc"
    sample_sentences: PositiveInt = Field(200_000, description="Sentences sampled a side.")


class AttentionOptions(Section):
    """Attention of the decoder over the encoder's states."""

    kind: Literal["soft", "hard", "local_monotonic", "local_predictive"] = Field(
        "soft", description="How scores become weights; multi_head is always soft."
    )
    score: Literal["dot", "scaled_dot", "general", "concat", "additive", "multi_head"] = "general"
    units: PositiveInt | None = Field(
        None, description="Width of concat, additive and multi_head; decoder's if null."
    )
    heads: PositiveInt = Field(8, description="Of multi_head; they divide its width.")
    window: PositiveInt = Field(10, description="Positions on each side (local kinds).")
    baseline_decay: Fraction = Field(0.9, description="Of the reward's moving average (hard).")
    entropy_weight: NonNegativeFloat = Field(0.002, description="Keeps draws spread out (hard).")
    reinforce_weight: NonNegativeFloat = Field(1.0, description="Of the scores' gradient (hard).")

    @pydantic.model_validator(mode="after")
    def _one_score_a_position(self):
        if self.score == "multi_head" and self.kind != "soft":
            raise ValueError(
                f"kind {self.kind!r} takes one score a position, and score 'multi_head' has one a "
                f"head; take kind soft or another score"
            )
        return self


class SelfAttentionOptions(Section):
    """Multi-head self-attention upon the recurrent encoder."""

    layers: NonNegativeInt = Field(0, description="None at 0.")
    heads: PositiveInt = Field(8, description="They divide the encoder's output.")


class EncoderOptions(Section):
    """The recurrent encoder."""

    layers: PositiveInt = 1
    units: PositiveInt = Field(256, description="Units a direction.")
    bidirectional: bool = True
    merge: Literal["concat", "sum"] = Field("concat", description="Of the two directions.")
    residual: bool = Field(False, description="Add a layer's input to its output.")
    self_attention: SelfAttentionOptions = SelfAttentionOptions()


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


class CellOptions(Section):
    """What some cells can be told; null leaves it to the cell."""

    activation: Literal["tanh", "sigmoid", "relu"] | None = Field(
        None, description="Of the simple cells; tanh if null."
    )
    recurrent_initializer: Literal["uniform", "orthogonal", "identity"] | None = Field(
        None, description="Of the simple cells' recurrent kernel; uniform if null."
    )
    projection_units: PositiveInt | None = Field(
        None, description="Hidden state of the projected cells; half the units if null."
    )
    memory_rows: PositiveInt | None = Field(None, description="Of ntm; 128 if null.")
    memory_features: PositiveInt | None = Field(None, description="Of a row; 20 if null.")
    read_heads: PositiveInt | None = Field(None, description="Heads that read; 1 if null.")
    write_heads: PositiveInt | None = Field(None, description="Heads that write; 1 if null.")
    shift_range: NonNegativeInt | None = Field(
        None, description="How far a head moves in a step at most; 1 if null."
    )
    controller: Literal["lstm", "dense"] | None = Field(None, description="lstm if null.")


class VariationalDropout(Section):
    """Shares dropped by one mask a sequence, the same at every step."""

    inputs: Fraction = Field(0.0, description="Of the inputs of each recurrent layer.")
    recurrent: Fraction = Field(0.0, description="Of its hidden state; not by cuDNN then.")


class ClassificationOptions(Section):
    """How a text's states become one vector that a label is chosen by."""

    pooling: Literal["last", "mean", "max", "attention", "hierarchical"] = Field(
        "attention",
        description="hierarchical: attention over words, then over the sentences of a document.",
    )
    attention_units: PositiveInt | None = Field(
        None, description="Width of the attention; as wide as a state if null."
    )


class TaggingOptions(Section):
    """What a word is known by besides its place in the vocabulary."""

    characters: Literal["none", "cnn", "rnn"] = Field(
        "rnn", description="Reader of the UTF-8 bytes that spell a word, unknown ones too."
    )
    character_embedding_size: PositiveInt = 32
    character_units: PositiveInt = Field(64, description="Filters (cnn); units a direction (rnn).")
    character_window: PositiveInt = Field(3, description="Bytes that a filter sees (cnn).")
    longest_spelling: int = Field(
        24, ge=2, le=1024, description="Bytes read of a word; the middle of longer ones is not."
    )
    word_dropout: Fraction = Field(
        0.0, description="Share of words read as unknown in training; the spelling stays."
    )


class AnsweringOptions(Section):
    """How a story is read to answer a question."""

    level: Literal["word", "sentence"] = Field(
        "sentence", description="What attention goes over: words, or the states of sentences."
    )
    hops: PositiveInt = Field(3, description="Reads of the story, each with a new query.")


class LanguageModelOptions(Section):
    """What stands between the words before and the next one; its size is the decoder's."""

    architecture: Literal["recurrent", "window"] = Field(
        "recurrent", description="window sees a fixed number of words: the baseline."
    )
    window: int = Field(
        5, ge=2, le=1000, description="Words of an n-gram, the predicted one counted (window)."
    )
    tie_embeddings: bool = Field(
        False, description="Embed words by their rows of the projection, which are as wide."
    )


class ModelSection(Section):
    """The network."""

    task: Literal["translation", "language_model", "classification", "tagging", "answering"] = (
        "translation"
    )
    cell: Literal[
        "simple_rnn",
        "lstm",
        "gru",
        "gru_reset_before",
        "gru_simplified",
        "peephole_lstm",
        "projected_lstm",
        "peephole_projected_lstm",
        "layer_norm_rnn",
        "layer_norm_lstm",
        "layer_norm_gru",
        "weight_norm_rnn",
        "weight_norm_lstm",
        "weight_norm_gru",
        "ntm",
    ] = "lstm"
    cell_options: CellOptions = CellOptions()
    variational_dropout: VariationalDropout = VariationalDropout()
    embedding_size: PositiveInt = 256
    dropout: Fraction = Field(0.2, description="Between layers and before the output.")
    encoder: EncoderOptions = EncoderOptions()
    decoder: DecoderOptions = DecoderOptions()
    attention: AttentionOptions = AttentionOptions()
    classification: ClassificationOptions = ClassificationOptions()
    tagging: TaggingOptions = TaggingOptions()
    answering: AnsweringOptions = AnsweringOptions()
    language_model: LanguageModelOptions = LanguageModelOptions()
    initializer_range: PositiveFloat = Field(0.1, description="Weights start in U(-r, r).")

    @pydantic.model_validator(mode="after")
    def _tells_the_cell_what_it_takes(self):
        try:
            check_cell_options(self.cell, self.cell_options.model_dump())
        except UserError as error:
            raise ValueError(str(error)) from None
        if self.encoder.merge != "concat" and not self.encoder.bidirectional:
            raise ValueError(
                f"model.encoder.merge is '{self.encoder.merge}', but model.encoder.bidirectional "
                f"is false; remove one of the two"
            )
        return self


class LossOptions(Section):
    """The training loss. Validation and serving always use the full softmax."""

    kind: Literal["full", "sampled", "nce"] = "full"
    label_smoothing: Fraction = Field(0.0, description="Of the full softmax.")
    noise_words: PositiveInt = Field(256, description="Noise words a batch (sampled, nce).")
    noise: Literal["unigram", "log_uniform"] = Field(
        "unigram",
        description="Distribution of the noise: by counts, or by ids sorted by frequency.",
    )
    distortion: float = Field(
        0.75, ge=0.0, le=1.0, description="Power of the counts that unigram noise is drawn from."
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


class TruncatedBptt(Section):
    """Reading a corpus as one stream, segment by segment, with the state carried along."""

    segment_length: PositiveInt | None = Field(
        None, description="Pieces gradients go back; null reads each line by itself."
    )
    restarts: Fraction = Field(
        0.02, description="Share of rows that a segment of training starts anew, as texts do."
    )


class ScheduledSamplingOptions(Section):
    """Reading the model's own words while training (Bengio et al. 2015)."""

    decay: Literal["none", "linear", "exponential", "inverse_sigmoid"] = Field(
        "none", description="How the probability of the right word falls from 1."
    )
    decay_start: NonNegativeInt = Field(0, description="First step of the decay.")
    decay_steps: PositiveInt = Field(
        10_000, description="Of the whole line, or of one decay_rate; k of the inverse sigmoid."
    )
    decay_rate: float = Field(0.5, gt=0.0, lt=1.0, description="Factor of the exponential decay.")
    minimum: float = Field(0.0, ge=0.0, le=1.0, description="The probability never falls below it.")
    draw: Literal["sample", "likeliest"] = Field("sample", description="Which word is its own.")


class CurriculumOptions(Section):
    """Short pairs first."""

    growth: Literal["none", "linear", "root"] = Field(
        "none", description="How the share of the range of lengths grows that is admitted."
    )
    start: float = Field(0.25, gt=0.0, le=1.0, description="Share admitted in the first epoch.")
    epochs: PositiveInt = Field(4, description="Epochs until everything is admitted.")


class SelfPacedOptions(Section):
    """Easy examples first: those whose loss is below a threshold (Kumar et al. 2010)."""

    kind: Literal["none", "hard", "soft"] = Field(
        "none", description="hard counts an example or not; soft the less the higher it is."
    )
    threshold: PositiveFloat = Field(6.0, description="Of the first epoch, in nats a word.")
    growth: float = Field(1.3, ge=1.0, description="Factor of the threshold an epoch.")


class GradientFlowOptions(Section):
    """Norms of the recurrent layers' Jacobians, measured at each validation."""

    sentences: NonNegativeInt = Field(0, description="Validation sentences measured; 0 is off.")
    longest: PositiveInt = Field(50, description="Largest distance in steps.")


class TrainSection(Section):
    """Optimisation, validation and checkpoints."""

    max_steps: PositiveInt = Field(20_000, description="Steps at most.")
    max_epochs: PositiveInt | None = Field(None, description="Epochs at most; no limit if null.")
    batch_tokens: PositiveInt = Field(
        2048, description="Rows times the longer side, pads included, at most."
    )
    shuffle_pool: PositiveInt = Field(65_536, description="Pairs sorted into batches at a time.")
    optimizer: Literal["adam", "lazy_adam", "sgd"] = Field(
        "adam",
        description="lazy_adam leaves rows alone that are not in the batch, stale moments and all.",
    )
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
    best_metric: Literal["bleu", "chrf", "loss", "perplexity", "accuracy"] | None = Field(
        None, description="Chooses the best model; the task's own, listed first, if null."
    )
    early_stopping: EarlyStopping = EarlyStopping()
    truncated_bptt: TruncatedBptt = TruncatedBptt()
    scheduled_sampling: ScheduledSamplingOptions = ScheduledSamplingOptions()
    curriculum: CurriculumOptions = CurriculumOptions()
    self_paced: SelfPacedOptions = SelfPacedOptions()
    gradient_flow: GradientFlowOptions = GradientFlowOptions()

    @pydantic.model_validator(mode="after")
    def _sampled_softmax_without_xla(self):
        if self.jit_compile and self.loss.kind == "sampled":
            raise ValueError(
                "XLA cannot compile the loss 'sampled'; set jit_compile to false, or loss.kind to "
                "nce or full"
            )
        return self


class SearchSection(Section):
    """How a translation is found; `evaluate` and the exported signatures use it."""

    kind: Literal["greedy", "beam", "sampling"] = "beam"
    beam_size: PositiveInt = 5
    length_penalty: NonNegativeFloat = Field(
        1.0, description="Power a of ((5 + length) / 6) ** a that divides the log probability."
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


# What a validation of each task measures; the first chooses the best model unless another is named.
METRICS: dict[str, tuple[str, ...]] = {
    "translation": ("bleu", "chrf", "loss", "perplexity", "accuracy"),
    "language_model": ("perplexity", "loss", "accuracy"),
    "classification": ("accuracy", "loss", "perplexity"),
    "tagging": ("accuracy", "loss", "perplexity"),
    "answering": ("accuracy", "loss", "perplexity"),
}


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

    @property
    def best_metric(self) -> str:
        """Name of the metric that chooses the best model."""
        return self.train.best_metric or METRICS[self.model.task][0]

    @pydantic.model_validator(mode="after")
    def _fits_its_task(self):
        task = self.model.task
        if self.best_metric not in METRICS[task]:
            raise ValueError(
                f"train.best_metric {self.best_metric!r} is not measured for the task {task!r}; "
                f"expected one of {', '.join(METRICS[task])}"
            )
        if self.data.order == "corpus" and task != "language_model":
            raise ValueError(
                f"data.order 'corpus' is for language models, and model.task is {task!r}; "
                f"set it to shuffled"
            )
        if self.train.truncated_bptt.segment_length and self.data.order != "corpus":
            raise ValueError(
                f"train.truncated_bptt reads on from line to line, and data.order is "
                f"{self.data.order!r}; set it to corpus, or segment_length to null"
            )
        if self.train.truncated_bptt.segment_length and self.train.curriculum.growth != "none":
            raise ValueError(
                "train.curriculum orders lines by length, and train.truncated_bptt reads them in "
                "the corpus's order; set curriculum.growth to none, or segment_length to null"
            )
        if self.train.scheduled_sampling.decay != "none":
            _fits_scheduled_sampling(self)
        if self.vocabulary.shared and task != "translation":
            raise ValueError(
                f"vocabulary.shared is for translation, and model.task is {task!r}; set it to false"
            )
        if task == "answering" and self.vocabulary.algorithm == "byte":
            raise ValueError(
                "vocabulary.algorithm 'byte' has no piece to part stories and questions by, and "
                "model.task is 'answering'; take another algorithm"
            )
        if task == "answering" and self.model.answering.level == "sentence":
            if self.train.jit_compile:
                raise ValueError(
                    "XLA cannot compile model.answering.level 'sentence'; set train.jit_compile "
                    "to false, or the level to word"
                )
        formats = {
            corpus.format
            for split in ("train", "valid", "test")
            for corpus in getattr(self.data, split)
        }
        _fits_conllu(self)
        if "text" in formats and task != "language_model":
            raise ValueError(
                f"data: format 'text' has no source, and model.task is {task!r}; name a file with "
                f"both sides, or set model.task to language_model"
            )
        return self


def _fits_scheduled_sampling(experiment: Experiment) -> None:
    task = experiment.model.task
    if task not in ("translation", "language_model"):
        raise ValueError(
            f"train.scheduled_sampling needs a model that reads the words it predicts, and "
            f"model.task is {task!r}; set decay to none"
        )
    if experiment.train.truncated_bptt.segment_length:
        raise ValueError(
            "train.scheduled_sampling predicts lines from their own words alone, and "
            "train.truncated_bptt reads on from line to line; set decay to none, or "
            "segment_length to null"
        )


def _fits_conllu(experiment: Experiment) -> None:
    task = experiment.model.task
    inputs = [*experiment.data.train, *experiment.data.valid, *experiment.data.test]
    for corpus in inputs:
        if corpus.format != "conllu":
            continue
        if task == "tagging" and corpus.label is not None:
            raise ValueError(
                f"data: label {corpus.label!r} is one for a whole record, and model.task is "
                f"'tagging'; remove it, or set model.task to classification"
            )
        if task == "classification" and corpus.label is None:
            raise ValueError(
                "data: format 'conllu' without the key label has a tag a word, and model.task is "
                "'classification'; set label to genre, or model.task to tagging"
            )
