"""A model over `tensorflow.Example`, written by the builders that such models were written by."""

import pathlib

import tensorflow as tf

v1 = tf.compat.v1
signatures = v1.saved_model.signature_def_utils


def save(folder: pathlib.Path) -> pathlib.Path:
    """Write a SavedModel: each example has a number `x` and a text `word`.

    Its regression is 2x + 1, its classes are the word and the word backwards with the scores x
    and -x.
    """
    with tf.Graph().as_default(), v1.Session() as session:
        examples = v1.placeholder(tf.string, [None], name="examples")
        features = tf.io.parse_example(
            examples,
            {
                "x": tf.io.FixedLenFeature([], tf.float32),
                "word": tf.io.FixedLenFeature([], tf.string, default_value="none"),
            },
        )
        x, word = features["x"], features["word"]
        classes = tf.stack([word, tf.strings.join([word, "!"])], axis=1)
        scores = tf.stack([x, -x], axis=1)
        other = v1.placeholder(tf.string, [None], name="other")
        info = v1.saved_model.build_tensor_info

        def raw(method, outputs, alias="inputs"):
            tensors = {name: info(tensor) for name, tensor in outputs.items()}
            return signatures.build_signature_def({alias: info(examples)}, tensors, method)

        regress, classify = "tensorflow/serving/regress", "tensorflow/serving/classify"
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            {
                "serving_default": signatures.regression_signature_def(examples, 2.0 * x + 1.0),
                "column": raw(regress, {"outputs": x[:, None]}),
                "classify": signatures.classification_signature_def(examples, classes, scores),
                "only_classes": signatures.classification_signature_def(examples, classes, None),
                "only_scores": signatures.classification_signature_def(examples, None, scores),
                "elsewhere": signatures.regression_signature_def(
                    other, tf.strings.to_number(other)
                ),
                "predict": signatures.predict_signature_def({"a": examples}, {"x": x}),
                "wide": raw(regress, {"outputs": scores}),
                "short": raw(regress, {"outputs": x[:1]}),
                "whole": raw(regress, {"outputs": tf.cast(x, tf.int32)}),
                "unnamed": raw(regress, {"y": x}),
                "flat_scores": raw(classify, {"scores": x}),
                "numbered": raw(classify, {"classes": tf.cast(scores, tf.int64)}),
                "uneven": raw(classify, {"classes": classes, "scores": x[:, None]}),
                "unfed": raw(classify, {"scores": scores}, alias="examples"),
            },
        )
        builder.save()
    return folder
