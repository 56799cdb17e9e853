"""Rules of the linter about the files that an export needs at run time."""

from collections.abc import Callable, Iterator

from tensorflow.core.framework import node_def_pb2

from serving.finding import Finding
from serving.saved_model_graph import Body, SavedModelGraph

ASSETS = "assets"

_PATH_INPUTS = {
    "ReadFile": (0,),
    "MatchingFiles": (0,),
    "InitializeTableFromTextFile": (1,),
    "InitializeTableFromTextFileV2": (1,),
    "TextLineDataset": (0,),
    "TFRecordDataset": (0,),
    "TFRecordDatasetV2": (0,),
    "FixedLengthRecordDataset": (0,),
    "FixedLengthRecordDatasetV2": (0,),
    "GenerateVocabRemapping": (0, 1),
}
"""Operations that read files, and which of their inputs hold the paths."""

_PATH_ATTRIBUTES = {"FixedUnigramCandidateSampler": "vocab_file"}


def missing_assets(graph: SavedModelGraph) -> Iterator[Finding]:
    """`missing-asset`: a file the graph names that does not lie in `assets/`."""
    for asset in graph.meta_graph.asset_file_def:
        path = graph.folder / ASSETS / asset.filename
        if not path.is_file():
            remedy = f"the graph reads it as {asset.tensor_info.name}; export again with the file"
            yield Finding("missing-asset", f"{ASSETS}/{asset.filename}", "", "", remedy)


def stray_assets(graph: SavedModelGraph) -> Iterator[Finding]:
    """`untracked-asset`: a file in `assets/` that the graph does not name."""
    tracked = {asset.filename for asset in graph.meta_graph.asset_file_def}
    folder = graph.folder / ASSETS
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in tracked:
            remedy = "nothing in the graph names it; hold it as tf.saved_model.Asset or delete it"
            yield Finding("untracked-asset", f"{ASSETS}/{name}", "", "", remedy)


def paths_outside(graph: SavedModelGraph) -> Iterator[Finding]:
    """`untracked-asset`: a node that reads a path of the machine which exported."""
    assets = {asset.tensor_info.name.split(":")[0] for asset in graph.meta_graph.asset_file_def}
    for body in graph.bodies:
        for node in body.nodes.values():
            for path in _paths_read(graph, body, node, assets):
                remedy = f"it reads {path}, which does not travel; hold it as tf.saved_model.Asset"
                yield Finding("untracked-asset", body.place, node.name, node.op, remedy)


def _paths_read(
    graph: SavedModelGraph, body: Body, node: node_def_pb2.NodeDef, assets: set[str]
) -> Iterator[str]:
    attribute = _PATH_ATTRIBUTES.get(node.op, "")
    if attribute in node.attr and node.attr[attribute].s:
        yield node.attr[attribute].s.decode(errors="replace")
    for index in _PATH_INPUTS.get(node.op, ()):
        for producer in graph.producers(body, node.input[index]):
            is_asset = not producer.body.function and producer.node.name in assets
            if producer.node.op == "Const" and not is_asset:
                yield _constant_text(producer.node)


def _constant_text(node: node_def_pb2.NodeDef) -> str:
    values = node.attr["value"].tensor.string_val
    return ", ".join(value.decode(errors="replace") for value in values) or "a constant path"


ASSET_RULES: tuple[Callable[[SavedModelGraph], Iterator[Finding]], ...] = (
    missing_assets,
    stray_assets,
    paths_outside,
)
