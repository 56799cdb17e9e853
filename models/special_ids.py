"""Ids with a meaning of their own, the same in every vocabulary."""

PAD_ID = 0
UNKNOWN_ID = 1
BEGIN_ID = 2
END_ID = 3
