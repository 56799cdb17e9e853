"""Reads the graph of a SavedModel from disk, and follows its tensors back to where they arise.

Nothing is loaded or run: only the protocol buffer is read, so that a model which would not
load can be looked at too.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from google.protobuf import message
from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from models.errors import UserError

INIT_SIGNATURE = "__saved_model_init_op"
SERVE_TAG = "serve"

_FIRST_FUNCTION_ARGUMENT = {
    "PartitionedCall": 0,
    "StatefulPartitionedCall": 0,
    "BatchFunction": 0,
    "While": 0,
    "StatelessWhile": 0,
    "If": 1,
    "StatelessIf": 1,
    "Case": 1,
    "StatelessCase": 1,
}
"""Operations that call functions, and the input that becomes the function's argument 0."""

_CARRIED_INPUTS = {
    "Identity": (0,),
    "Reshape": (0,),
    "ExpandDims": (0,),
    "Squeeze": (0,),
    "EnsureShape": (0,),
    "Tile": (0,),
    "BroadcastTo": (0,),
    "Transpose": (0,),
    "GatherV2": (0,),
    "GatherNd": (0,),
    "StridedSlice": (0,),
    "Slice": (0,),
    "Pad": (0,),
    "PadV2": (0,),
    "Fill": (1,),
    "Select": (1, 2),
    "SelectV2": (1, 2),
}
"""Operations whose output holds elements of these inputs, unchanged."""

_CARRIED_ALL = frozenset({"Pack", "ConcatV2", "IdentityN"})


@dataclasses.dataclass(frozen=True)
class Body:
    """A set of nodes with arguments and returns: the main graph, or a function.

    Attributes:
        function: Name of the function; empty for the main graph.
        nodes: The nodes, by name.
        arguments: Names of the function's arguments, in order.
        returns: The tensors that the function returns, in order.
    """

    function: str
    nodes: dict[str, node_def_pb2.NodeDef]
    arguments: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """How findings name it."""
        return f"function {self.function}" if self.function else "main graph"

    @classmethod
    def of_function(cls, function: function_pb2.FunctionDef) -> "Body":
        """The body of a function of the library."""
        return cls(
            function=function.signature.name,
            nodes={node.name: node for node in function.node_def},
            arguments=tuple(argument.name for argument in function.signature.input_arg),
            returns=tuple(function.ret[out.name] for out in function.signature.output_arg),
        )


@dataclasses.dataclass(frozen=True)
class Producer:
    """A node in which a tensor arises."""

    body: Body
    node: node_def_pb2.NodeDef


class SavedModelGraph:
    """The graph that a server would load from a SavedModel.

    Attributes:
        folder: Folder of the SavedModel.
        meta_graph: The MetaGraph of its tags.
        main: The main graph.
        functions: Bodies of the functions of its library, by name.
    """

    def __init__(self, folder: pathlib.Path, meta_graph: meta_graph_pb2.MetaGraphDef):
        """Index a MetaGraph; `read` is the way to get one."""
        self.folder = folder
        self.meta_graph = meta_graph
        graph = meta_graph.graph_def
        self.main = Body("", {node.name: node for node in graph.node})
        self.functions = {
            function.signature.name: Body.of_function(function)
            for function in graph.library.function
        }

    @classmethod
    def read(
        cls, saved_model_dir: str | pathlib.Path, tags: Sequence[str] = (SERVE_TAG,)
    ) -> "SavedModelGraph":
        """Read `saved_model.pb` of a folder.

        Args:
            saved_model_dir: A version directory.
            tags: Tags of the MetaGraph; it has these and no others, as a server asks.

        Raises:
            UserError: If the folder holds no SavedModel, a torn one, or none to serve.
        """
        folder = pathlib.Path(saved_model_dir)
        path = folder / "saved_model.pb"
        if not path.is_file():
            raise UserError(f"{folder}: no saved_model.pb in it; name the folder of a SavedModel.")
        try:
            saved_model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
        except message.DecodeError as error:
            raise UserError(f"{path}: not a SavedModel ({error}); export it again.") from None
        for meta_graph in saved_model.meta_graphs:
            if set(meta_graph.meta_info_def.tags) == set(tags):
                return cls(folder, meta_graph)
        wanted = ", ".join(tags)
        raise UserError(f"{path}: no graph is tagged {wanted!r}; export it with that tag.")

    @property
    def bodies(self) -> Iterator[Body]:
        """The main graph, then every function of the library."""
        yield self.main
        yield from self.functions.values()

    @property
    def signatures(self) -> dict[str, meta_graph_pb2.SignatureDef]:
        """The signatures that requests may name."""
        every = self.meta_graph.signature_def
        return {name: every[name] for name in sorted(every) if name != INIT_SIGNATURE}

    @property
    def loading_steps(self) -> list[str]:
        """Nodes of the main graph that a server runs while it loads the model."""
        steps = [self.meta_graph.saver_def.restore_op_name]
        every = self.meta_graph.signature_def
        if INIT_SIGNATURE in every:
            steps.extend(tensor.name for tensor in every[INIT_SIGNATURE].outputs.values())
        return steps

    def ancestors(self, names: Iterable[str]) -> set[str]:
        """Nodes of the main graph that run before some of them do, these included.

        Args:
            names: Names of nodes, or of their tensors.
        """
        seen: set[str] = set()
        pending = [_node_name(name) for name in names]
        while pending:
            name = pending.pop()
            if name in seen or name not in self.main.nodes:
                continue
            seen.add(name)
            inputs = self.main.nodes[name].input
            pending.extend(_node_name(tensor.removeprefix("^")) for tensor in inputs)
        return seen

    def producers(self, body: Body, tensor: str) -> list[Producer]:
        """The nodes in which a tensor's elements arise.

        Steps back over nodes that only hand elements on, into functions by what they
        return, and out of functions to whoever calls them.

        Args:
            body: Where the tensor's name is valid.
            tensor: Name of the tensor as the graph writes it: `node`, `node:0`,
                `node:output:0` or an argument's name.
        """
        found, seen, pending = [], set(), [(body, tensor)]
        while pending:
            body, tensor = pending.pop()
            if (body.function, tensor) in seen:
                continue
            seen.add((body.function, tensor))
            before = self._one_step_back(body, tensor)
            if before:
                pending.extend(before)
            elif node := body.nodes.get(_node_name(tensor)):
                found.append(Producer(body, node))
        return found

    def _one_step_back(self, body: Body, tensor: str) -> list[tuple[Body, str]]:
        name = _node_name(tensor)
        if name in body.arguments:
            return self._handed_in(body.function, body.arguments.index(name))
        node = body.nodes.get(name)
        if node is None:
            return []
        if node.op in _FIRST_FUNCTION_ARGUMENT:
            return self._handed_out(node, _output_index(tensor))
        inputs = _data_inputs(node)
        if node.op in _CARRIED_ALL:
            return [(body, name) for name in inputs]
        carried = _CARRIED_INPUTS.get(node.op, ())
        return [(body, inputs[index]) for index in carried if index < len(inputs)]

    def _handed_in(self, function: str, argument: int) -> list[tuple[Body, str]]:
        handed = []
        for caller, node in self._calls.get(function, ()):
            inputs = _data_inputs(node)
            index = argument + _FIRST_FUNCTION_ARGUMENT[node.op]
            if index < len(inputs):
                handed.append((caller, inputs[index]))
        return handed

    def _handed_out(self, call: node_def_pb2.NodeDef, output: int) -> list[tuple[Body, str]]:
        called = [self.functions[name] for name in called_functions(call) if name in self.functions]
        return [(body, body.returns[output]) for body in called if output < len(body.returns)]

    @functools.cached_property
    def _calls(self) -> dict[str, list[tuple[Body, node_def_pb2.NodeDef]]]:
        calls: dict[str, list[tuple[Body, node_def_pb2.NodeDef]]] = {}
        for body in self.bodies:
            for node in body.nodes.values():
                if node.op in _FIRST_FUNCTION_ARGUMENT:
                    for function in called_functions(node):
                        calls.setdefault(function, []).append((body, node))
        return calls


def called_functions(node: node_def_pb2.NodeDef) -> list[str]:
    """Names of the functions that a node may call."""
    called = []
    for value in node.attr.values():
        if value.HasField("func"):
            called.append(value.func.name)
        called.extend(function.name for function in value.list.func)
    return called


def _data_inputs(node: node_def_pb2.NodeDef) -> list[str]:
    return [name for name in node.input if not name.startswith("^")]


def _node_name(tensor: str) -> str:
    return tensor.split(":", 1)[0]


def _output_index(tensor: str) -> int:
    last = tensor.rsplit(":", 1)[-1]
    return int(last) if last.isdigit() and ":" in tensor else 0
