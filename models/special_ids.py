"""Ids with a meaning of their own, the same in every vocabulary."""

PAD_ID = 0
UNKNOWN_ID = 1
BEGIN_ID = 2
END_ID = 3

MARK_IDS = (PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID)  # no label and no tag is one of them
# Marks that no text holds. The full softmax learns as much; a sampled loss may not.
NO_WORDS = (PAD_ID, BEGIN_ID)
