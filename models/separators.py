"""Characters that part a text where a model reads more than one sentence.

Both are Unicode's own for the purpose and no control characters, so that they may stand in a
corpus. White space stands around them, so that they are words.
"""

SENTENCE = "\u2028"  # line separator: between the sentences of a document or story
QUESTION = "\u2029"  # paragraph separator: between a story and the question about it
