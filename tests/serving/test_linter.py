"""The linter against one bad model of each kind, and a good one."""

import io
import pathlib

import keras
import pytest
import sentencepiece
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import saved_model_pb2

from models.errors import UserError
from serving.linter import check, lint
from serving.ops import serving_ops

FLOATS = tf.TensorSpec([None], tf.float32, name="x")
STRINGS = tf.TensorSpec([None], tf.string, name="text")


@pytest.fixture(scope="module")
def spm_model():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a small model of words", "words of a model"] * 10),
        model_writer=model,
        vocab_size=24,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    return model.getvalue()


@pytest.fixture
def export(tmp_path):
    """Saves a function of one input, or several functions, as signatures of a SavedModel."""

    def save(function=None, spec=FLOATS, module=None, **signatures):
        if function is not None:
            signatures["serving_default"] = tf.function(function, input_signature=[spec])
        folder = tmp_path / "model" / "1"
        tf.saved_model.save(module or tf.Module(), str(folder), signatures=signatures)
        return folder

    return save


def rules(folder: pathlib.Path) -> set[str]:
    return {finding.rule for finding in lint(folder)}


def only_finding(folder: pathlib.Path):
    (finding,) = lint(folder)
    return finding


class Translator(tf.Module):
    """Separate tokenizers, a tracked file, a batched core: all that an export may have."""

    def __init__(self, spm_model, word_list):
        super().__init__()
        self.encoder = tensorflow_text.SentencepieceTokenizer(spm_model)
        self.decoder = tensorflow_text.SentencepieceTokenizer(spm_model)
        self.words = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                str(word_list),
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            default_value=-1,
        )

    @tf.function(input_signature=[STRINGS])
    def translate(self, text):
        @tf.nondifferentiable_batch_function(2, 4, 1000)
        def length(sentences):
            return tf.strings.length(sentences)  # [B]

        translation = self.decoder.detokenize(self.encoder.tokenize(text))  # [B]
        picture = tf.io.encode_png(tf.zeros([1, 1, 1], tf.uint8))  # []
        return {
            "translation": translation,
            "word": self.words.lookup(text),
            "picture_bytes": tf.fill(tf.shape(text), picture),
            "length": tf.ensure_shape(length(text), [None]),
        }

    @tf.function(input_signature=[STRINGS])
    def pieces(self, text):
        with tf.name_scope("pieces"):

            @tf.nondifferentiable_batch_function(2, 4, 1000)
            def upper(sentences):
                return tf.strings.upper(sentences)  # [B]

            text = tf.ensure_shape(upper(text), [None])  # [B]
        return {"pieces": self.encoder.tokenize(text).to_tensor()}  # [B, S]


@pytest.fixture
def good(tmp_path, spm_model):
    word_list = tmp_path / "words.txt"
    word_list.write_text("model\nwords\n")
    module = Translator(spm_model, word_list)
    folder = tmp_path / "good" / "1"
    signatures = {"serving_default": module.translate, "pieces": module.pieces}
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return folder


def test_a_good_model_has_no_findings(good):
    assert lint(good) == []
    check(good)


def test_a_missing_asset_is_found(good):
    (good / "assets" / "words.txt").unlink()
    finding = only_finding(good)
    assert finding.rule == "missing-asset"
    assert finding.place == "assets/words.txt"


def test_a_stray_asset_is_found(good):
    (good / "assets" / "left_over.txt").write_text("x")
    finding = only_finding(good)
    assert finding.rule == "untracked-asset"
    assert finding.place == "assets/left_over.txt"


def test_a_path_of_this_machine_is_found(export, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("x")

    def first_line(text):
        return {"line": tf.fill(tf.shape(text), tf.io.read_file(str(path)))}

    finding = only_finding(export(first_line, STRINGS))
    assert (finding.rule, finding.op) == ("untracked-asset", "ReadFile")
    assert str(path) in finding.remedy


@pytest.mark.parametrize("operation", ["py_function", "numpy_function", "stateless"])
def test_python_callbacks_are_found(export, operation):
    def double(x):
        if operation == "py_function":
            y = tf.py_function(lambda value: value * 2, [x], tf.float32)
        else:
            stateful = operation == "numpy_function"
            y = tf.numpy_function(lambda value: value * 2, [x], tf.float32, stateful=stateful)
        return {"y": tf.ensure_shape(y, [None])}

    assert rules(export(double)) == {"python-callback"}


def test_a_callback_in_a_function_that_no_signature_reaches_is_found(export):
    module = tf.Module()
    module.leak = tf.function(
        lambda x: tf.py_function(lambda value: value, [x], tf.float32), input_signature=[FLOATS]
    )
    finding = only_finding(export(lambda x: {"y": x + 1}, module=module))
    assert (finding.rule, finding.op) == ("python-callback", "EagerPyFunc")
    assert finding.place.startswith("function ")


def test_functions_that_must_be_compiled_are_found(export):
    compiled = tf.function(lambda x: x * 2, jit_compile=True)
    findings = lint(export(lambda x: {"y": compiled(x)}))
    assert {finding.rule for finding in findings} == {"xla-function"}
    assert len(findings) == 1


def test_functions_said_not_to_be_compiled_pass(export):
    plain = tf.function(lambda x: x * 2, jit_compile=False)
    assert lint(export(lambda x: {"y": plain(x)})) == []


def test_ragged_outputs_are_found(export):
    def split(x):
        return {"y": tf.RaggedTensor.from_row_lengths(x, tf.ones_like(x, tf.int64), validate=False)}

    finding = only_finding(export(split))
    assert (finding.rule, finding.node) == ("composite-tensor", "output y")
    assert "ragged" in finding.remedy


def test_sparse_outputs_are_found(export):
    finding = only_finding(export(lambda x: {"y": tf.sparse.from_dense(x)}))
    assert finding.rule == "composite-tensor"
    assert "sparse" in finding.remedy


def test_scalar_outputs_are_found(export):
    finding = only_finding(export(lambda x: {"y": tf.reduce_sum(x)}))
    assert (finding.rule, finding.place) == ("scalar", "signature serving_default")


def test_outputs_of_unknown_rank_are_found(export):
    finding = only_finding(export(lambda x: {"y": tf.reshape(x, tf.cast(x, tf.int32))}))
    assert finding.rule == "unknown-rank"


def test_outputs_of_a_fixed_first_dimension_are_found(export):
    finding = only_finding(export(lambda x: {"y": tf.stack([tf.reduce_sum(x)] * 3)}))
    assert finding.rule == "fixed-batch"
    assert "3" in finding.remedy


def test_inputs_of_a_fixed_first_dimension_are_found(export):
    spec = tf.TensorSpec([1], tf.float32, name="x")
    findings = lint(export(lambda x: {"y": x}, spec))
    assert [(finding.rule, finding.node) for finding in findings] == [
        ("fixed-batch", "input x"),
        ("fixed-batch", "output y"),
    ]


def test_scalar_inputs_are_found(export):
    spec = tf.TensorSpec([], tf.float32, name="x")
    finding = only_finding(export(lambda x: {"y": tf.zeros([tf.cast(x, tf.int32)])}, spec))
    assert (finding.rule, finding.node) == ("scalar", "input x")


def _batched(scale, scope):
    def multiply(x):
        with tf.name_scope(scope):

            @tf.nondifferentiable_batch_function(2, 4, 1000)
            def multiply_batch(values):
                return values * scale

            return {"y": tf.ensure_shape(multiply_batch(x), [None])}

    return tf.function(multiply, input_signature=[FLOATS])


def test_batched_functions_of_one_name_are_found(export):
    finding = only_finding(export(double=_batched(2.0, "core"), triple=_batched(3.0, "core")))
    assert (finding.rule, finding.op) == ("shared-batch-queue", "BatchFunction")
    assert "core/batch/" in finding.remedy


def test_batched_functions_of_two_names_pass(export):
    assert lint(export(double=_batched(2.0, "double"), triple=_batched(3.0, "triple"))) == []


def test_one_tokenizer_for_both_directions_is_found(export, spm_model):
    module = tf.Module()
    module.tokenizer = tensorflow_text.SentencepieceTokenizer(spm_model)
    encode = tf.function(
        lambda text: {"ids": module.tokenizer.tokenize(text).to_tensor()},
        input_signature=[STRINGS],
    )
    decode = tf.function(
        lambda ids: {"text": module.tokenizer.detokenize(ids)},
        input_signature=[tf.TensorSpec([None, None], tf.int32, name="ids")],
    )
    finding = only_finding(export(module=module, encode=encode, decode=decode))
    assert (finding.rule, finding.op) == ("shared-tokenizer", "SentencepieceDetokenizeOp")


def _embedder(module, variables_of):
    layer = keras.layers.Embedding(5, 2)
    layer.build()
    module.tracked = variables_of(layer)
    return tf.function(
        lambda ids: {"states": layer(ids)},
        input_signature=[tf.TensorSpec([None], tf.int32, name="ids")],
    )


def _answers_of_a_session(folder):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
        signature = meta_graph.signature_def["serving_default"]
        feeds = {signature.inputs["ids"].name: [1]}
        return session.run(signature.outputs["states"].name, feeds)


def test_variables_that_a_session_finds_empty_are_found(export):
    module = tf.Module()
    embed = _embedder(module, lambda layer: layer)
    folder = export(module=module, serving_default=embed)
    finding = only_finding(folder)
    assert (finding.rule, finding.op) == ("unrestored-variable", "VarHandleOp")
    with pytest.raises(tf.errors.FailedPreconditionError):
        _answers_of_a_session(folder)


def test_variables_that_a_session_restores_pass(export):
    module = tf.Module()
    embed = _embedder(module, lambda layer: [variable.value for variable in layer.variables])
    folder = export(module=module, serving_default=embed)
    assert lint(folder) == []
    assert _answers_of_a_session(folder).shape == (1, 2)


def test_text_named_as_bytes_is_found(export):
    finding = only_finding(export(lambda text: {"upper_bytes": tf.strings.upper(text)}, STRINGS))
    assert (finding.rule, finding.node) == ("bytes-suffix", "output upper_bytes")
    assert "text" in finding.remedy


def test_binary_strings_named_as_text_are_found(export):
    def picture(x):
        png = tf.io.encode_png(tf.zeros([1, 1, 1], tf.uint8))  # []
        return {"picture": tf.fill(tf.shape(x), png)}  # [B]

    finding = only_finding(export(picture))
    assert (finding.rule, finding.node) == ("bytes-suffix", "output picture")
    assert "binary" in finding.remedy


def test_numbers_named_as_bytes_are_found(export):
    assert rules(export(lambda x: {"y_bytes": x + 1})) == {"bytes-suffix"}


def test_jpeg_xl_decoding_is_found(export):
    def sizes(images):
        def size(image):
            return tf.shape(tf.raw_ops.DecodeJxl(contents=image))[0]

        return {"height": tf.map_fn(size, images, fn_output_signature=tf.int32)}

    finding = only_finding(export(sizes, STRINGS))
    assert (finding.rule, finding.op) == ("unserved-op", "DecodeJxl")
    assert "JPEG XL" in finding.remedy


def test_gpu_only_operations_are_found(export):
    def recur(x):
        state = tf.zeros([1, 1, 1])
        result = tf.raw_ops.CudnnRNNV3(
            input=tf.reshape(x, [1, -1, 1]),
            input_h=state,
            input_c=state,
            params=x,
            sequence_lengths=tf.ones([1], tf.int32),
        )
        return {"y": tf.ensure_shape(tf.reshape(result.output, [-1]), [None])}

    finding = only_finding(export(recur))
    assert (finding.rule, finding.op) == ("unserved-op", "CudnnRNNV3")
    assert "use_cudnn=False" in finding.remedy


def test_operations_unknown_to_the_server_are_found(export):
    folder = export(lambda x: {"y": tf.math.exp(x)})
    path = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for function in model.meta_graphs[0].graph_def.library.function:
        for node in function.node_def:
            if node.op == "Exp":
                node.op = "ExpOfTomorrow"
    path.write_bytes(model.SerializeToString())
    finding = only_finding(folder)
    assert (finding.rule, finding.op) == ("unserved-op", "ExpOfTomorrow")


def test_check_tells_every_finding_at_once(export):
    folder = export(lambda x: {"total": tf.reduce_sum(x), "y_bytes": x})
    with pytest.raises(UserError) as error:
        check(folder)
    message = str(error.value)
    assert message.splitlines()[0] == (
        f"{folder}: TensorFlow Serving 2.20.0 would not serve it: 2 findings"
    )
    assert "[scalar] signature serving_default, output total: " in message
    assert "[bytes-suffix] signature serving_default, output y_bytes: " in message


def test_a_folder_without_a_model_is_a_users_mistake(tmp_path):
    with pytest.raises(UserError, match=r"no saved_model\.pb"):
        lint(tmp_path)


def test_a_torn_model_is_a_users_mistake(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\x0a\xff\xff")
    with pytest.raises(UserError, match="not a SavedModel"):
        lint(tmp_path)


def test_a_model_not_tagged_for_serving_is_a_users_mistake(tmp_path):
    model = saved_model_pb2.SavedModel()
    model.meta_graphs.add().meta_info_def.tags.append("train")
    (tmp_path / "saved_model.pb").write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match="'serve'"):
        lint(tmp_path)


def test_the_list_of_operations_is_that_of_the_server():
    listed = serving_ops()
    assert len(listed) > 1000
    assert {"MatMul", "StatefulPartitionedCall", "BatchFunction", "AccumulateNV2"} <= listed
    assert {"SentencepieceTokenizeOp", "TFText>RoundRobinTrim", "TFText>Utf8Binarize"} <= listed
    assert listed.isdisjoint({"PyFunc", "EagerPyFunc", "DecodeJxl", "XlaLaunch", "CudnnRNNV3"})


def test_findings_read_as_one_line(export):
    finding = only_finding(export(lambda x: {"y": tf.reduce_sum(x)}))
    assert str(finding) == (
        "[scalar] signature serving_default, output y: "
        "it has rank 0; give it one value a row of the batch"
    )
