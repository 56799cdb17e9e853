"""The section model: the network."""

from typing import Any, Literal

import pydantic
from pydantic import Field, NonNegativeFloat, PositiveFloat

from models.cells.options import UNBRIDGEABLE, check_cell_options
from models.errors import UserError
from pipeline.experiment.section import (
    Fraction,
    NonNegativeInt,
    PositiveInt,
    Section,
)


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


class CaptioningOptions(Section):
    """How a picture is told; sizes are the decoder's, attention is that of the section."""

    decoder: Literal["gated", "first_input", "every_step"] = Field(
        "gated",
        description="gated attends; the others read the picture's mean once, or with every word.",
    )
    stochastic_weight: float = Field(
        1.0, ge=0.0, description="Of the loss that wants every cell looked at once (gated)."
    )


class VisualAnsweringOptions(Section):
    """How a question about a picture is answered; sizes are those of encoder and decoder."""

    form: Literal["classifier", "generator"] = Field(
        "classifier", description="An answer is one of the labels, or words that a decoder writes."
    )
    hops: PositiveInt = Field(
        1, description="Looks at the picture, each with a new query (classifier)."
    )


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

    task: Literal[
        "translation",
        "language_model",
        "classification",
        "tagging",
        "answering",
        "captioning",
        "visual_answering",
        "lip_reading",
        "frame_tagging",
    ] = "translation"
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
    captioning: CaptioningOptions = CaptioningOptions()
    visual_answering: VisualAnsweringOptions = VisualAnsweringOptions()
    language_model: LanguageModelOptions = LanguageModelOptions()
    initializer_range: PositiveFloat = Field(0.1, description="Weights start in U(-r, r).")

    @property
    def of_all_networks(self) -> dict[str, Any]:
        """What the models of all tasks are told in the same words."""
        return {
            "cell": self.cell,
            "embedding_size": self.embedding_size,
            "dropout": self.dropout,
            "initializer_range": self.initializer_range,
            "cell_options": self.cell_options.model_dump(),
            "variational_dropout": self.variational_dropout.model_dump(),
        }

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
        bridge = self.decoder.bridge
        bridged = self.task in ("translation", "lip_reading")
        if bridged and self.cell in UNBRIDGEABLE and bridge != "zero":
            raise ValueError(
                f"model.decoder.bridge {bridge!r} makes states of vectors alone, and the cell "
                f"{self.cell!r} has a memory too; set it to zero"
            )
        return self
