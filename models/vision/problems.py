"""Why a picture cannot be read: codes of exports, and what they are to the user.

Nothing is imported, so that clients can tell them without TensorFlow.
"""

NO_PROBLEM = 0
EMPTY = 1
UNKNOWN_KIND = 2
TOO_LARGE = 3
BROKEN = 4

PROBLEMS = {
    EMPTY: "an empty file, where a picture was expected",
    UNKNOWN_KIND: "not a picture that the model can read; expected a JPEG, PNG, GIF or BMP file",
    TOO_LARGE: "a picture of more pixels than the model takes; scale it down (the limit is "
    "data.pictures.max_pixels of the experiment that exported the model)",
    BROKEN: "a picture that is torn or damaged; expected the whole file",
}
