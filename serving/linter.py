"""Finds what would keep an exported SavedModel from being served.

The rules hold over the main graph and over every function of its library: TensorFlow Serving
instantiates functions that no signature reaches as soon as something names them, and a
callback into Python leaks in from any `tf.function` that hangs on the exported object.

Rules about single nodes are here; those about signatures are in `signature_rules.py` and
those about files in `asset_rules.py`.
"""

import pathlib
from collections.abc import Callable, Iterator, Sequence

from tensorflow.core.framework import function_pb2, node_def_pb2

from models.errors import UserError
from serving.asset_rules import ASSET_RULES
from serving.finding import Finding
from serving.ops import SERVING_RELEASE, serving_ops
from serving.saved_model_graph import SERVE_TAG, SavedModelGraph, called_functions
from serving.signature_rules import SIGNATURE_RULES

__all__ = ["Finding", "check", "lint"]

_PYTHON_CALLBACKS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
_MUST_COMPILE = "_XlaMustCompile"
_VARIABLES = frozenset({"VarHandleOp", "VariableV2", "Variable"})
_ENCODING = frozenset({"SentencepieceTokenizeOp", "SentencepieceTokenizeWithOffsetsOp"})
_DECODING = frozenset({"SentencepieceDetokenizeOp"})


def lint(saved_model_dir: str | pathlib.Path, tags: Sequence[str] = (SERVE_TAG,)) -> list[Finding]:
    """Look for what TensorFlow Serving would refuse, or serve wrongly.

    Args:
        saved_model_dir: Folder of a SavedModel. It is read, not loaded.
        tags: Tags of the graph that would be served.

    Returns:
        The findings in the order of the rules; empty for a model that may be published.

    Raises:
        UserError: If the folder holds no readable SavedModel.
    """
    graph = SavedModelGraph.read(saved_model_dir, tags)
    return [finding for rule in RULES for finding in rule(graph)]


def check(saved_model_dir: str | pathlib.Path) -> None:
    """Refuse a SavedModel that has findings.

    Args:
        saved_model_dir: Folder of a SavedModel.

    Raises:
        UserError: Naming every finding, with its remedy.
    """
    findings = lint(saved_model_dir)
    if not findings:
        return
    count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    lines = [f"{saved_model_dir}: TensorFlow Serving {SERVING_RELEASE} would not serve it: {count}"]
    raise UserError("\n".join(lines + [f"  {finding}" for finding in findings]))


def python_callbacks(graph: SavedModelGraph) -> Iterator[Finding]:
    """`python-callback`: a node that calls Python, which a server has none of."""
    for body in graph.bodies:
        for node in body.nodes.values():
            if node.op in _PYTHON_CALLBACKS:
                yield Finding(
                    "python-callback",
                    body.place,
                    node.name,
                    node.op,
                    "write it with TensorFlow operations, or keep the tf.function that holds it "
                    "off the exported object",
                )


def compiled_functions(graph: SavedModelGraph) -> Iterator[Finding]:
    """`xla-function`: a function, or a call of one, that must be compiled by XLA."""
    remedy = "trace the export without jit_compile; XLA is off in TensorFlow Serving"
    functions = graph.meta_graph.graph_def.library.function
    compiled = {function.signature.name for function in functions if _must_compile(function)}
    for name in sorted(compiled):
        yield Finding("xla-function", f"function {name}", "", "", remedy)
    for body in graph.bodies:
        for node in body.nodes.values():
            if _must_compile(node) and compiled.isdisjoint(called_functions(node)):
                yield Finding("xla-function", body.place, node.name, node.op, remedy)


def _must_compile(
    definition: function_pb2.FunctionDef | node_def_pb2.NodeDef,
) -> bool:
    return _MUST_COMPILE in definition.attr and definition.attr[_MUST_COMPILE].b


def unserved_operations(graph: SavedModelGraph) -> Iterator[Finding]:
    """`unserved-op`: an operation that the pinned release cannot run on a CPU."""
    known = serving_ops() | _PYTHON_CALLBACKS | graph.functions.keys()
    for body in graph.bodies:
        for node in body.nodes.values():
            if node.op not in known:
                yield Finding("unserved-op", body.place, node.name, node.op, _instead_of(node.op))


def shared_batch_queues(graph: SavedModelGraph) -> Iterator[Finding]:
    """`shared-batch-queue`: batched functions that would share one queue by name.

    The server then runs requests of one through the graph of the other.
    """
    first: dict[tuple[str, str], str] = {}
    for body in graph.bodies:
        for node in body.nodes.values():
            if node.op != "BatchFunction":
                continue
            name = node.attr["shared_name"].s.decode() or node.name
            queue = (node.attr["container"].s.decode(), name)
            if queue in first:
                yield Finding(
                    "shared-batch-queue",
                    body.place,
                    node.name,
                    node.op,
                    f"its shared_name {name!r} is also that of {first[queue]}; wrap each batched "
                    "function in a tf.name_scope of its own",
                )
            first.setdefault(queue, f"{body.place}, node {node.name}")


def shared_tokenizers(graph: SavedModelGraph) -> Iterator[Finding]:
    """`shared-tokenizer`: one SentencePiece resource used both to encode and to decode.

    Every call sets its options on the resource, where calls that run at once see them.
    """
    encoders = {
        (producer.body.function, producer.node.name)
        for _, _, producer in _tokenizer_uses(graph, _ENCODING)
    }
    for body, node, producer in _tokenizer_uses(graph, _DECODING):
        if (producer.body.function, producer.node.name) in encoders:
            yield Finding(
                "shared-tokenizer",
                body.place,
                node.name,
                node.op,
                f"{producer.node.name} also encodes; build one tokenizer object to encode and "
                "another to decode",
            )


def unrestored_variables(graph: SavedModelGraph) -> Iterator[Finding]:
    """`unrestored-variable`: a variable that answers need and that loading leaves empty.

    Object-based loading in Python finds its value all the same; a server's Session does not.
    """
    filled = graph.ancestors(graph.loading_steps)
    for name, signature in graph.signatures.items():
        needed = graph.ancestors(tensor.name for tensor in signature.outputs.values())
        for node_name in sorted(needed - filled):
            if graph.main.nodes[node_name].op in _VARIABLES:
                yield Finding(
                    "unrestored-variable",
                    f"signature {name}",
                    node_name,
                    graph.main.nodes[node_name].op,
                    "no step of loading fills it; track the tf.Variable itself (`.value` of a "
                    "Keras variable) on the exported object instead of the layer that owns it",
                )


def _tokenizer_uses(graph: SavedModelGraph, operations: frozenset[str]) -> Iterator[tuple]:
    for body in graph.bodies:
        for node in body.nodes.values():
            if node.op in operations:
                for producer in graph.producers(body, node.input[0]):
                    yield body, node, producer


def _instead_of(operation: str) -> str:
    if operation == "DecodeJxl":
        return "TensorFlow Serving links no JPEG XL decoder; decode with tf.io.decode_jpeg or _png"
    if operation.startswith("CudnnRNN"):
        return "it runs on a GPU alone; trace the export with use_cudnn=False"
    return f"not among the operations of TensorFlow Serving {SERVING_RELEASE}; use another"


RULES: tuple[Callable[[SavedModelGraph], Iterator[Finding]], ...] = (
    python_callbacks,
    compiled_functions,
    unserved_operations,
    shared_batch_queues,
    shared_tokenizers,
    unrestored_variables,
    *SIGNATURE_RULES,
    *ASSET_RULES,
)
