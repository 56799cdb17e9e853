"""The signatures of every SavedModel: their names, inputs and outputs.

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
PREFIX = "prefix"
TRANSLATION = "translation"
TRANSLATIONS = "translations"
SCORE = "score"
SCORES = "scores"
SOURCE_TOKENS = "source_tokens"
TARGET_TOKENS = "target_tokens"
ALIGNMENT = "alignment"
LOG_PROBABILITY = "log_probability"
TOKENS = "tokens"
STORY = "story"
QUESTION = "question"
ANSWER = "answer"
STORY_TOKENS = "story_tokens"
WEIGHTS = "weights"
TAGS = "tags"
LABEL = "label"
LABELS = "labels"
SENTENCE_WEIGHTS = "sentence_weights"
PERPLEXITY = "perplexity"
PROMPT = "prompt"
MAX_TOKENS = "max_tokens"
TEMPERATURE = "temperature"
TOP_K = "top_k"
TOP_P = "top_p"
SEED = "seed"
IMAGE_BYTES = "image_bytes"
FRAMES_BYTES = "frames_bytes"
CAPTION = "caption"
ERROR_CODE = "error_code"


@dataclasses.dataclass(frozen=True)
class Field:
    """One named tensor of a signature.

    Attributes:
        name: Its alias in requests and responses.
        dtype: Name of the TensorFlow type: `string`, `float32` or `int32`.
        axes: A letter an axis: `B` sentences, `N` hypotheses, `S` source pieces, `T` target
            pieces, `C` labels, `D` sentences of a text, `K` reads of it, `Y` rows and `X` columns
            of a grid, `F` frames of a clip. No axis has a fixed size.
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
_SCORE_OUTPUT = Field(SCORE, "float32", "B", "its length-normalised log probability")

TRANSLATE = Signature(
    name="serving_default",
    inputs=(_TEXT_INPUT,),
    outputs=(
        Field(TRANSLATION, "string", "B", "the best translation"),
        _SCORE_OUTPUT,
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

SAMPLE = Signature(
    name="sample",
    inputs=(
        _TEXT_INPUT,
        Field(SEED, "int32", "B", "of the draws; the same seed gives the same translation"),
        Field(TEMPERATURE, "float32", "B", "divides logits; 0 takes the likeliest piece"),
    ),
    outputs=(
        Field(TRANSLATION, "string", "B", "a translation, drawn piece by piece"),
        _SCORE_OUTPUT,
    ),
)

COMPLETE = Signature(
    name="complete",
    inputs=(
        _TEXT_INPUT,
        Field(PREFIX, "string", "B", "how each translation begins; may be empty"),
    ),
    outputs=(
        Field(TRANSLATION, "string", "B", "the best translation that begins so, whole"),
        _SCORE_OUTPUT,
    ),
)

TRANSLATION_SIGNATURES = (TRANSLATE, NBEST, ALIGN, FORCED_SCORE, SAMPLE, COMPLETE)

_PICTURE_INPUT = Field(IMAGE_BYTES, "string", "B", "JPEG, PNG, GIF or BMP files, first frame")
_ERROR_OUTPUT = Field(
    ERROR_CODE, "int32", "B", "0, or why no picture can be read: 1 empty, 2 none, 3 large, 4 torn"
)

CAPTION_PICTURE = Signature(
    name="serving_default",
    inputs=(_PICTURE_INPUT,),
    outputs=(
        Field(CAPTION, "string", "B", 'the best caption; "" where there is an error'),
        _SCORE_OUTPUT,
        _ERROR_OUTPUT,
    ),
)

ALIGN_CAPTION = Signature(
    name="align",
    inputs=(_PICTURE_INPUT,),
    outputs=(
        Field(CAPTION, "string", "B", 'the best caption; "" where there is an error'),
        Field(TARGET_TOKENS, "string", "BT", 'its pieces, padded with ""'),
        Field(ALIGNMENT, "float32", "BTYX", "attention of each over the cells of the picture"),
        _ERROR_OUTPUT,
    ),
)

CAPTIONING_SIGNATURES = (CAPTION_PICTURE, ALIGN_CAPTION)

_PICTURE_AND_QUESTION = (_PICTURE_INPUT, Field(QUESTION, "string", "B", "the question about each"))
_ANSWER_OUTPUT = Field(ANSWER, "string", "B", 'the best answer; "" where there is an error')

ASK_PICTURE = Signature(
    name="serving_default",
    inputs=_PICTURE_AND_QUESTION,
    outputs=(
        _ANSWER_OUTPUT,
        Field(SCORE, "float32", "B", "a label's probability, or as of captions where words answer"),
        _ERROR_OUTPUT,
    ),
)

LOOK_AT_PICTURE = Signature(
    name="attention",
    inputs=_PICTURE_AND_QUESTION,
    outputs=(
        _ANSWER_OUTPUT,
        Field(WEIGHTS, "float32", "BKYX", "attention of each look over the cells of the picture"),
        _ERROR_OUTPUT,
    ),
)

ALIGN_ANSWER = Signature(
    name="align",
    inputs=_PICTURE_AND_QUESTION,
    outputs=(
        _ANSWER_OUTPUT,
        Field(TARGET_TOKENS, "string", "BT", 'its pieces, padded with ""'),
        Field(
            ALIGNMENT,
            "float32",
            "BTYX",
            "attention of each over the cells; the rest of it is on the question's words",
        ),
        _ERROR_OUTPUT,
    ),
)

VISUAL_ANSWERING_SIGNATURES = (ASK_PICTURE, LOOK_AT_PICTURE)
VISUAL_GENERATION_SIGNATURES = (ASK_PICTURE, ALIGN_ANSWER)

_CLIP_INPUT = Field(
    FRAMES_BYTES, "string", "BF", 'files of the frames of clips, as of pictures, padded with ""'
)
_CLIP_ERROR = Field(
    ERROR_CODE, "int32", "B", "0, or why a frame cannot be read, as of pictures; 1 without frames"
)
_READ_TEXT = Field(TEXT, "string", "B", 'the best text; "" where there is an error')

READ_LIPS = Signature(
    name="serving_default",
    inputs=(_CLIP_INPUT,),
    outputs=(_READ_TEXT, _SCORE_OUTPUT, _CLIP_ERROR),
)

ALIGN_LIPS = Signature(
    name="align",
    inputs=(_CLIP_INPUT,),
    outputs=(
        _READ_TEXT,
        Field(TARGET_TOKENS, "string", "BT", 'its pieces, padded with ""'),
        Field(ALIGNMENT, "float32", "BTF", "attention of each over the frames"),
        _CLIP_ERROR,
    ),
)

LIP_READING_SIGNATURES = (READ_LIPS, ALIGN_LIPS)

TAG_FRAMES = Signature(
    name="serving_default",
    inputs=(_CLIP_INPUT,),
    outputs=(
        Field(TAGS, "string", "BF", 'the likeliest tag of each frame, padded with ""'),
        Field(SCORES, "float32", "BF", "the tag's probability"),
        _CLIP_ERROR,
    ),
)

FRAME_TAGGING_SIGNATURES = (TAG_FRAMES,)

_STORY_AND_QUESTION = (
    Field(STORY, "string", "B", "stories; line breaks part their sentences"),
    Field(QUESTION, "string", "B", "the question about each"),
)

ANSWER_QUESTION = Signature(
    name="serving_default",
    inputs=_STORY_AND_QUESTION,
    outputs=(
        Field(ANSWER, "string", "B", "the likeliest answer"),
        Field(SCORE, "float32", "B", "its probability"),
    ),
)

LOOK_UP = Signature(
    name="attention",
    inputs=_STORY_AND_QUESTION,
    outputs=(
        Field(ANSWER, "string", "B", "the likeliest answer"),
        Field(STORY_TOKENS, "string", "BS", 'pieces or sentences of the story, padded with ""'),
        Field(WEIGHTS, "float32", "BKS", "attention of each read over them"),
    ),
)

ANSWERING_SIGNATURES = (ANSWER_QUESTION, LOOK_UP)

TAG = Signature(
    name="serving_default",
    inputs=(Field(TEXT, "string", "B", "sentences, their words parted by white space"),),
    outputs=(
        Field(TOKENS, "string", "BS", 'the words, padded with ""'),
        Field(TAGS, "string", "BS", "the likeliest tag of each"),
        Field(SCORES, "float32", "BS", "the tag's probability"),
    ),
)

TAGGING_SIGNATURES = (TAG,)

_TEXT_TO_CLASSIFY = Field(TEXT, "string", "B", "texts; line breaks part their sentences")

CLASSIFY = Signature(
    name="serving_default",
    inputs=(_TEXT_TO_CLASSIFY,),
    outputs=(
        Field(LABEL, "string", "B", "the likeliest label"),
        Field(SCORE, "float32", "B", "its probability"),
    ),
)

PROBABILITIES = Signature(
    name="probabilities",
    inputs=(_TEXT_TO_CLASSIFY,),
    outputs=(
        Field(LABELS, "string", "BC", "all labels, the likeliest first"),
        Field(SCORES, "float32", "BC", "their probabilities"),
    ),
)

WORD_ATTENTION = Signature(
    name="attention",
    inputs=(_TEXT_TO_CLASSIFY,),
    outputs=(
        Field(LABEL, "string", "B", "the likeliest label"),
        Field(TOKENS, "string", "BS", 'pieces of the text, padded with ""'),
        Field(WEIGHTS, "float32", "BS", "attention to each"),
    ),
)

SENTENCE_ATTENTION = Signature(
    name="attention",
    inputs=(_TEXT_TO_CLASSIFY,),
    outputs=(
        Field(LABEL, "string", "B", "the likeliest label"),
        Field(TOKENS, "string", "BDS", 'pieces of each sentence, padded with ""'),
        Field(WEIGHTS, "float32", "BDS", "attention to each within its sentence"),
        Field(SENTENCE_WEIGHTS, "float32", "BD", "attention to each sentence"),
    ),
)

CLASSIFICATION_SIGNATURES = (CLASSIFY, PROBABILITIES)

SCORE_TEXT = Signature(
    name="serving_default",
    inputs=(Field(TEXT, "string", "B", "texts to score"),),
    outputs=(
        Field(LOG_PROBABILITY, "float32", "B", "sum over the pieces and the ends of lines"),
        Field(TOKENS, "int32", "B", "number of terms of that sum"),
        Field(PERPLEXITY, "float32", "B", "exp(-log_probability / tokens)"),
    ),
)

GENERATE = Signature(
    name="generate",
    inputs=(
        Field(PROMPT, "string", "B", "how each text begins; may be empty"),
        Field(MAX_TOKENS, "int32", "B", "pieces to add at most"),
        Field(TEMPERATURE, "float32", "B", "divides logits; 0 takes the likeliest piece"),
        Field(TOP_K, "int32", "B", "draw from that many of the likeliest pieces; 0 from all"),
        Field(TOP_P, "float32", "B", "draw from the likeliest of that joint probability"),
        Field(SEED, "int32", "B", "of the draws; the same seed gives the same text"),
    ),
    outputs=(
        Field(TEXT, "string", "B", "how the text goes on"),
        Field(SCORE, "float32", "B", "log probability of what was added"),
        Field(TOKENS, "int32", "B", "pieces added, an end mark counted"),
    ),
)

LANGUAGE_MODEL_SIGNATURES = (SCORE_TEXT, GENERATE)
