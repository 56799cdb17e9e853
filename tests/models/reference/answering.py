"""The answering model in NumPy, a row at a time: logits of labels and what each read looks at."""

import numpy as np

from tests.models.reference.attention import SCORES, softmax
from tests.models.reference.losses import project
from tests.models.reference.recurrent import run_stack

END_ID = 3


def answering_logits(options, stories, questions, arrays):
    """Logits [B, V] and weights, a list of [K, P] a row.

    Args:
        options: Of `AnsweringModel`.
        stories: A list of ids a row, end mark last, without pads.
        questions: Likewise.
        arrays: Weights by part: `embedding`, `match`, `story`, `words` (of sentences), `question`,
            `attention`, `update` and `projection`.
    """
    found = [
        _row(options, story, question, arrays)
        for story, question in zip(stories, questions, strict=True)
    ]
    return np.stack([logits for logits, _ in found]), [weights for _, weights in found]


def _row(options, story, question, arrays):
    memory = _memory(options, story, question, arrays)  # [P, M]
    query = _final(options, question, arrays["question"], arrays["embedding"][0])  # [M]
    context = np.zeros_like(query)
    weights = np.zeros((options["hops"], len(memory)))
    for hop in range(options["hops"]):
        if hop:
            query = query @ arrays["update"][0] + context
        if len(memory):
            score = SCORES[options["attention"]["score"]]
            weights[hop] = softmax(score(query[np.newaxis], memory, arrays["attention"]))[0]
            context = weights[hop] @ memory
    return project(np.concatenate([query, context]), *arrays["projection"]), weights


def _memory(options, story, question, arrays):
    embedding = arrays["embedding"][0].copy()
    asked = sorted({word for word in question if word > END_ID})
    embedding[asked] += arrays["match"][0]
    if options["level"] == "word":
        return _outputs(options, embedding[story], arrays["story"])
    sentences, sentence = [], []
    for word in story:
        if word not in (END_ID, options["sentence_id"]):
            sentence.append(word)
        elif sentence:
            sentences.append(sentence)
            sentence = []
    states = [_final(options, each, arrays["words"], embedding) for each in sentences]
    if not states:
        return np.zeros((0, arrays["projection"][0].shape[1] // 2))
    return np.stack(states) + _outputs(options, np.stack(states), arrays["story"])


def _outputs(options, inputs, weights):
    return _run(options, inputs, weights)[0][0]


def _final(options, words, weights, embedding):
    _, forward, backward = _run(options, embedding[words], weights)
    return np.concatenate([states[-1][0][0] for states in (forward, backward) if states])


def _run(options, inputs, weights):
    stack = options["stack"]
    shape = (stack["bidirectional"], stack["residual"])
    return run_stack(stack["cell"], inputs[np.newaxis], [len(inputs)], weights, *shape)


def variables_by_part(model):
    """The variables of an `AnsweringModel` as `answering_logits` names their parts."""
    encoder = model.story_encoder
    parts = {
        "embedding": model.embedding,
        "match": model.match,
        "story": encoder.stack,
        "question": model.question_stack,
        "attention": model.reads.attention,
        "projection": model.projection,
    }
    if model.reads.hops > 1:
        parts["update"] = model.reads.update
    if model.options["level"] == "sentence":
        parts["words"] = encoder.word_stack
    return {name: part.trainable_variables for name, part in parts.items()}
