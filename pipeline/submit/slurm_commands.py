"""Slurm's own commands, and what they say."""

import re
import subprocess
from collections.abc import Iterable, Sequence

from models.errors import UserError
from pipeline.experiment.submit import SlurmOptions

_FIELD = re.compile(r"(\S+?)=(\S*)")


def run_command(*arguments: str, given: str = "") -> str:
    """What a command prints.

    Args:
        *arguments: Name and arguments.
        given: Its standard input.

    Raises:
        UserError: If it is not there, or refuses.
    """
    try:
        done = subprocess.run(arguments, input=given, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError(
            f"{arguments[0]}: no such program on PATH; run the command on a machine with Slurm's"
        ) from None
    if done.returncode:
        raise UserError(f"{' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def sbatch(script: str, arguments: Sequence[str] = ()) -> str:
    """Queue a batch script and give its number."""
    # With a cluster's name behind it where there are several.
    return run_command("sbatch", "--parsable", *arguments, given=script).strip().partition(";")[0]


def scancel(jobs: Iterable[str]) -> None:
    """End jobs; nothing if they have ended."""
    if numbers := list(jobs):
        run_command("scancel", "--quiet", *numbers)


def show_job(number: str) -> dict[str, str] | None:
    """What Slurm says of a job, such as `JobState`; None of one it does not know any more.

    It forgets jobs some minutes after they have ended.

    Raises:
        UserError: If Slurm does not answer.
    """
    try:
        shown = run_command("scontrol", "show", "--oneliner", "job", number)
    except UserError as error:
        if "Invalid job id" in str(error):
            return None
        raise
    return dict(_FIELD.findall(shown))


def is_queued(number: str) -> bool:
    """Whether a job, or any of an array's, waits or runs."""
    try:
        return bool(run_command("squeue", "--noheader", f"--jobs={number}").strip())
    except UserError as error:
        if "Invalid job id" in str(error):
            return False
        raise


def header(options: SlurmOptions, name: str) -> list[str]:
    """Lines of `#SBATCH` that all scripts have."""
    wanted = {
        "job-name": name,
        "partition": options.partition,
        "account": options.account,
        "time": options.time_limit,
        "cpus-per-task": options.cpus_per_worker,
        "requeue": "",
        "open-mode": "append",
    }
    # Memory is asked for a core, since that of a task cannot be.
    lines = [
        f"#SBATCH --{key}={value}" if value != "" else f"#SBATCH --{key}"
        for key, value in wanted.items()
        if value is not None
    ]
    if options.memory_per_worker:
        lines.append(f"#SBATCH --mem-per-cpu={_share(options)}")
    return lines + [f"#SBATCH {option}" for option in options.options]


def _share(options: SlurmOptions) -> str:
    """Memory of one of a worker's cores, in MiB."""
    text = options.memory_per_worker or ""
    number, unit = (text[:-1], text[-1]) if text[-1].isalpha() else (text, "M")
    kilobytes = int(number) * {"K": 1, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}[unit]
    return f"{max(-(-kilobytes // 1024) // options.cpus_per_worker, 1)}M"
