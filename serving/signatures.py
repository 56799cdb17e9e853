"""The signatures of a translation SavedModel: their names, inputs and outputs.

The exporter declares them, the server's tests expect them and the client asks for them, all
from here. Nothing heavier than the standard library is imported, so that the client starts
at once.

Every tensor is batch-major: its first axis is `B`, the sentences of the request. Strings are
UTF-8. Names of string outputs do not end in `_bytes`, since a server would send those as
base64 over REST.
"""

import dataclasses

TEXT = "text"
SOURCE = "source"
TARGET = "target"
TRANSLATION = "translation"
TRANSLATIONS = "translations"
SCORE = "score"
SCORES = "scores"
SOURCE_TOKENS = "source_tokens"
TARGET_TOKENS = "target_tokens"
ALIGNMENT = "alignment"
LOG_PROBABILITY = "log_probability"
TOKENS = "tokens"


@dataclasses.dataclass(frozen=True)
class Field:
    """One named tensor of a signature.

    Attributes:
        name: Its alias in requests and responses.
        dtype: Name of the TensorFlow type: `string`, `float32` or `int32`.
        axes: A letter an axis: `B` sentences, `N` hypotheses, `S` source pieces, `T` target
            pieces. No axis has a fixed size.
        meaning: What it holds, in a phrase.
    """

    name: str
    dtype: str
    axes: str
    meaning: str

    @property
    def rank(self) -> int:
        """Number of axes, the batch among them."""
        return len(self.axes)


@dataclasses.dataclass(frozen=True)
class Signature:
    """What one signature takes and gives.

    Attributes:
        name: Its key in the SavedModel.
        inputs: The tensors a request must hold, no more and no fewer.
        outputs: The tensors of the response.
    """

    name: str
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(field.name for field in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return tuple(field.name for field in self.outputs)


_TEXT_INPUT = Field(TEXT, "string", "B", "sentences to translate")

TRANSLATE = Signature(
    name="serving_default",
    inputs=(_TEXT_INPUT,),
    outputs=(
        Field(TRANSLATION, "string", "B", "the best translation"),
        Field(SCORE, "float32", "B", "its length-normalised log probability"),
    ),
)

NBEST = Signature(
    name="nbest",
    inputs=(_TEXT_INPUT,),
    outputs=(
        Field(TRANSLATIONS, "string", "BN", "translations, best first"),
        Field(SCORES, "float32", "BN", "their length-normalised log probabilities"),
    ),
)

ALIGN = Signature(
    name="align",
    inputs=(_TEXT_INPUT,),
    outputs=(
        Field(TRANSLATION, "string", "B", "the best translation"),
        Field(SOURCE_TOKENS, "string", "BS", 'source pieces, padded with ""'),
        Field(TARGET_TOKENS, "string", "BT", 'target pieces, padded with ""'),
        Field(ALIGNMENT, "float32", "BTS", "attention of each target piece over the source"),
    ),
)

FORCED_SCORE = Signature(
    name="score",
    inputs=(
        Field(SOURCE, "string", "B", "source sentences"),
        Field(TARGET, "string", "B", "the translation of each that is to be scored"),
    ),
    outputs=(
        Field(LOG_PROBABILITY, "float32", "B", "sum over target pieces and the end mark"),
        Field(TOKENS, "int32", "B", "number of terms of that sum"),
    ),
)

TRANSLATION_SIGNATURES = (TRANSLATE, NBEST, ALIGN, FORCED_SCORE)
BY_NAME = {signature.name: signature for signature in TRANSLATION_SIGNATURES}
