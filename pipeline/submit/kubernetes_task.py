"""Entry point of a container.

`python -P -m pipeline.submit.kubernetes_task FOLDER STAGE ARGUMENTS`

Describes the workers to TensorFlow, runs the command, and writes what it prints into the job's
folder too, where it outlives the pod.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from pipeline.places import Place, place
from pipeline.submit.python import module_command
from pipeline.submit.stored_log import opened_log


def main() -> None:
    """Run a stage that is not done yet, as a process of its own."""
    folder, stage, arguments = place(sys.argv[1]), sys.argv[2], sys.argv[3:]
    index = int(os.environ["JOB_COMPLETION_INDEX"])
    # What a stage leaves is the first worker's: where that is done, others have nothing to do,
    # and would wait for it in vain.
    done = folder / f"{stage}.done"
    if done.exists():
        print(f"{stage} is done already")
        return
    status = _run([*module_command("pipeline.cli"), *arguments], folder, stage, index)
    if status == 0 and index == 0:
        done.touch()
    sys.exit(status)


def tf_config(variables: Mapping[str, str]) -> str | None:
    """`TF_CONFIG` of a worker; None of one that is alone."""
    count = int(variables["SEQLOOM_WORKERS"])
    if count == 1:
        return None
    workers = [variables["SEQLOOM_HOSTS"] % index for index in range(count)]
    task = {"type": "worker", "index": int(variables["JOB_COMPLETION_INDEX"])}
    return json.dumps({"cluster": {"worker": workers}, "task": task})


def _run(command: list[str], folder: Place, stage: str, index: int) -> int:
    """Exit status of a command whose lines go to standard output and to the stage's log."""
    config = tf_config(os.environ)
    variables = {"TF_CONFIG": config} if config else {}
    with opened_log(folder / "logs" / f"{stage}-{index}.log") as log:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
        )
        signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
        assert process.stdout is not None
        while block := process.stdout.read(1 << 16):
            log.write(block)
            sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()
    status = process.wait()
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    main()
