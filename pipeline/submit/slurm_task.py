"""Entry point of a process that srun starts.

`python -P -m pipeline.submit.slurm_task PORT PREFIX RESTARTS ARGUMENTS`

Describes the step to TensorFlow, then is the command. TensorFlow's own resolver of Slurm's
variables fails on nodes without GPUs, and where two nodes are one host.
"""

import itertools
import json
import os
import pathlib
import re
import sys
from collections.abc import Callable, Mapping

from models.errors import UserError
from pipeline.submit.slurm_commands import run_command

RESTART = 75  # as in pipeline.stages, which brings TensorFlow
_MARKS = {RESTART: "interrupted", 2: "refused"}
_LAST_PORT = 65_000


def main() -> None:
    """Run a stage, and leave a mark where its exit status would not tell the script enough.

    One that wants to be started again ends well: it would otherwise have its neighbours killed,
    which may still be saving. And a user's mistake is told apart from what killing them gives.
    """
    port, prefix, restarts, *arguments = sys.argv[1:]
    if int(os.environ["SLURM_STEP_NUM_TASKS"]) > 1:
        os.environ["TF_CONFIG"] = tf_config(os.environ, int(port))
    from pipeline import cli

    sys.argv = ["seqloom", *arguments]
    try:
        cli.main()
    except SystemExit as end:
        if end.code in _MARKS:
            pathlib.Path(f"{prefix}.{_MARKS[end.code]}.{restarts}").touch()
        if end.code != RESTART:
            raise


def tf_config(
    variables: Mapping[str, str], port: int, look_up: Callable[..., str] = run_command
) -> str:
    """`TF_CONFIG` of a task of a step whose tasks are dealt out in blocks.

    Args:
        variables: Slurm's.
        port: The first that may be taken. Each task takes one of its own, whatever its host.
        look_up: Runs a command of Slurm's.

    Raises:
        UserError: If the variables do not fit together.
    """
    nodes = look_up("scontrol", "show", "hostnames", variables["SLURM_STEP_NODELIST"]).split()
    counts = tasks_per_node(variables["SLURM_STEP_TASKS_PER_NODE"])
    total = int(variables["SLURM_STEP_NUM_TASKS"])
    if len(counts) != len(nodes) or sum(counts) != total:
        raise UserError(
            f"Slurm's step has the nodes {', '.join(nodes)} with {counts} tasks, and says it has "
            f"{total} tasks in all; run it by the script that `seqloom submit --dry-run` shows"
        )
    hosts = itertools.chain.from_iterable(
        [_address(node, look_up)] * count for node, count in zip(nodes, counts, strict=True)
    )
    # Steps that share a node take ports apart, as far as numbers of jobs tell them apart.
    first = int(variables["SLURM_JOB_ID"]) * total
    span = _LAST_PORT - port
    workers = [f"{host}:{port + (first + rank) % span}" for rank, host in enumerate(hosts)]
    task = {"type": "worker", "index": int(variables["SLURM_PROCID"])}
    return json.dumps({"cluster": {"worker": workers}, "task": task})


def tasks_per_node(text: str) -> list[int]:
    """The numbers of `2(x3),1`: 2, 2, 2, 1."""
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if not found:
            raise UserError(f"SLURM_STEP_TASKS_PER_NODE is {text!r}; expected such as 2(x3),1")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def _address(node: str, look_up: Callable[..., str]) -> str:
    """Where a node is reached, which need not be its name."""
    shown = look_up("scontrol", "show", "--oneliner", "node", node)
    found = re.search(r"NodeAddr=(\S+)", shown)
    return found[1] if found else node


if __name__ == "__main__":
    main()
