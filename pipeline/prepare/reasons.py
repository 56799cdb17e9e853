"""Why a pair is dropped: one name a reason, the same in counters, manifest and table."""

MISSING_COLUMN = "missing_column"
BROKEN_JSON = "broken_json"
MISSING_KEY = "missing_key"
NOT_A_STRING = "not_a_string"
INVALID_UTF8 = "invalid_utf8"
CONTROL_CHARACTERS = "control_characters"
EMPTY = "empty"
IDENTICAL = "identical"
TOO_LONG = "too_long"
LENGTH_RATIO = "length_ratio"
DUPLICATE = "duplicate"
NOT_ALIGNED = "not_aligned"
BROKEN_CONLLU = "broken_conllu"
NO_IDENTITY = "no_identity"
BROKEN_BABI = "broken_babi"
NO_PICTURE = "no_picture"
BROKEN_PICTURE = "broken_picture"
HUGE_PICTURE = "huge_picture"
NO_CLIP = "no_clip"
BROKEN_CLIP = "broken_clip"
NO_FRAMES = "no_frames"

DESCRIPTIONS = {
    MISSING_COLUMN: "a TSV line with fewer columns than the input names",
    BROKEN_JSON: "a line that is not a JSON object",
    MISSING_KEY: "a JSON object without a key the input names",
    NOT_A_STRING: "a JSON value that is not a string",
    INVALID_UTF8: "bytes that are not UTF-8",
    CONTROL_CHARACTERS: "a character of U+0000–001F or U+007F–009F inside a sentence",
    BROKEN_CONLLU: "a CoNLL-U line without ten columns, or words not numbered from 1",
    NO_IDENTITY: "a CoNLL-U document or sentence without an id that begins with a genre",
    BROKEN_BABI: "a bAbI line without its number, or an answer without a question",
    NO_PICTURE: "a picture that is not there or cannot be opened",
    BROKEN_PICTURE: "a file that is no whole picture",
    HUGE_PICTURE: "a picture of more pixels than data.pictures.max_pixels",
    NO_CLIP: "a clip that is not there or cannot be opened",
    BROKEN_CLIP: "a file that is no whole video, or none that the extra video reads",
    NO_FRAMES: "a clip without any frame",
    EMPTY: "a side with nothing but white space",
    IDENTICAL: "two equal sides",
    TOO_LONG: "more pieces than the limit",
    NOT_ALIGNED: "more or fewer tags than words or frames",
    LENGTH_RATIO: "sides of too different length",
    DUPLICATE: "a pair that stood earlier",
}


class Dropped(Exception):
    """Raised where a pair fails a rule.

    Attributes:
        reason: A key of `DESCRIPTIONS`.
        offset: Lines from the first of the record to the one that fails.
    """

    def __init__(self, reason: str, offset: int = 0):
        super().__init__(reason)
        self.reason = reason
        self.offset = offset
