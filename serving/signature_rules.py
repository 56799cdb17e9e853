"""Rules of the linter about signatures: what goes in and out of a served model."""

from collections.abc import Callable, Iterator

from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from serving.finding import Finding
from serving.saved_model_graph import SavedModelGraph

_BINARY_PRODUCERS = frozenset(
    {
        "EncodeJpeg",
        "EncodeJpegVariableQuality",
        "EncodePng",
        "EncodeWav",
        "EncodeProto",
        "SerializeTensor",
        "SerializeSparse",
        "SerializeManySparse",
        "ZlibCompress",
        "CompressElement",
    }
)
"""Operations whose strings are not text."""

_TEXT_PRODUCERS = frozenset(
    {
        "SentencepieceDetokenizeOp",
        "SentencepieceIdToStringOp",
        "TFText>FastSentencepieceDetokenize",
        "TFText>FastWordpieceDetokenize",
        "TFText>PhraseDetokenize",
        "TFText>NgramsStringJoin",
        "UnicodeEncode",
        "UnicodeTranscode",
        "NormalizeUTF8",
        "CaseFoldUTF8",
        "LookupTableFind",
        "LookupTableFindV2",
        "StringJoin",
        "ReduceJoin",
        "StringFormat",
        "StringLower",
        "StringUpper",
        "StringStrip",
        "RegexReplace",
        "StaticRegexReplace",
        "AsString",
    }
)
"""Operations whose strings are text."""

_BYTES_SUFFIX = "_bytes"
_OPAQUE = {types_pb2.DT_RESOURCE: "resource", types_pb2.DT_VARIANT: "variant"}

_Tensor = tuple[str, str, str, meta_graph_pb2.TensorInfo]


def _tensors(graph: SavedModelGraph) -> Iterator[_Tensor]:
    """Every (place, side, alias, description) of the signatures, in a fixed order."""
    for name, signature in graph.signatures.items():
        for side, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for alias in sorted(tensors):
                yield f"signature {name}", side, alias, tensors[alias]


def composite_tensors(graph: SavedModelGraph) -> Iterator[Finding]:
    """`composite-tensor`: ragged, sparse or opaque, which no request or response can hold."""
    for place, side, alias, info in _tensors(graph):
        encoding = info.WhichOneof("encoding")
        if encoding != "name":
            kind = "sparse" if encoding == "coo_sparse" else _composite_kind(info)
        elif info.dtype in _OPAQUE:
            kind = _OPAQUE[info.dtype]
        else:
            continue
        remedy = f"it is {kind}; make it dense, for example by to_tensor() with padding"
        yield Finding("composite-tensor", place, f"{side} {alias}", "", remedy)


def _composite_kind(info: meta_graph_pb2.TensorInfo) -> str:
    return info.composite_tensor.type_spec.type_spec_class_name.removesuffix("TensorSpec").lower()


def first_dimensions(graph: SavedModelGraph) -> Iterator[Finding]:
    """`scalar`, `unknown-rank`, `fixed-batch`: a first dimension that is not the batch."""
    for place, side, alias, info in _tensors(graph):
        if info.WhichOneof("encoding") != "name":
            continue
        rule, remedy = _fault_of_shape(info)
        if rule:
            yield Finding(rule, place, f"{side} {alias}", "", remedy)


def _fault_of_shape(info: meta_graph_pb2.TensorInfo) -> tuple[str, str]:
    shape = info.tensor_shape
    if shape.unknown_rank:
        return "unknown-rank", "its rank is unknown; state it by tf.ensure_shape, the batch first"
    if not shape.dim:
        return "scalar", "it has rank 0; give it one value a row of the batch"
    if shape.dim[0].size != -1:
        size = shape.dim[0].size
        return "fixed-batch", f"its first dimension is {size}; make it the batch, of size None"
    return "", ""


def byte_suffixes(graph: SavedModelGraph) -> Iterator[Finding]:
    """`bytes-suffix`: over REST, strings go out as base64 if and only if named `*_bytes`."""
    for place, side, alias, info in _tensors(graph):
        if side == "output" and info.WhichOneof("encoding") == "name":
            remedy = _fault_of_name(alias, info, graph)
            if remedy:
                yield Finding("bytes-suffix", place, f"output {alias}", "", remedy)


def _fault_of_name(alias: str, info: meta_graph_pb2.TensorInfo, graph: SavedModelGraph) -> str:
    marked = alias.endswith(_BYTES_SUFFIX)
    if info.dtype != types_pb2.DT_STRING:
        return f"it holds no strings; drop the ending {_BYTES_SUFFIX}" if marked else ""
    operations = {producer.node.op for producer in graph.producers(graph.main, info.name)}
    if marked and operations & _TEXT_PRODUCERS:
        return f"it holds text; drop the ending {_BYTES_SUFFIX}, or REST sends base64"
    if not marked and operations & _BINARY_PRODUCERS:
        return f"it holds binary strings; let its name end in {_BYTES_SUFFIX}"
    return ""


SIGNATURE_RULES: tuple[Callable[[SavedModelGraph], Iterator[Finding]], ...] = (
    composite_tensors,
    first_dimensions,
    byte_suffixes,
)
