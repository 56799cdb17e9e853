"""Tasks that are alike in what they read or write, by their names in `model.task`."""

CLIP_TASKS = ("lip_reading", "frame_tagging")
PICTURE_TASKS = ("captioning", "visual_answering", *CLIP_TASKS)
# A label belongs to each part of the source.
ALIGNED_TASKS = ("tagging", "frame_tagging")
# A record has no pieces of a source; frames of a clip are counted later.
TASKS_WITHOUT_SOURCE_IDS = ("language_model", "captioning", *CLIP_TASKS)
