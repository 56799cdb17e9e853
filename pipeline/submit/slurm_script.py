"""The batch script of a stage."""

import shlex

from pipeline.experiment.submit import SlurmOptions
from pipeline.places import Place
from pipeline.submit.contract import Job, Stage
from pipeline.submit.python import module_command, python_path
from pipeline.submit.slurm_commands import header

# In words of the shell, since what a script does must not wait for an interpreter to start.
#
# Near the time limit Slurm sends USR1 to this script alone, which asks the training to save by
# SIGTERM. It then leaves a mark and ends, and the job is queued again. A job that is cancelled or
# preempted is sent SIGTERM, script and all: whoever did that decides what follows.
_BODY = """\
end() {
    echo "$1 $restarts" > %(prefix)s.partial && mv %(prefix)s.partial %(outcome)s
    exit "$1"
}
save() { scancel --signal=TERM "$SLURM_JOB_ID"; }
trap save USR1
trap 'told=1' TERM

restarts=${SLURM_RESTART_COUNT:-0}
srun --kill-on-bad-exit=1 --distribution=block --open-mode=append \\
    --output=%(logs)s/%(stage)s-%%t.log \\
    %(task)s "$restarts" \\
    %(arguments)s &
step=$!
# A signal ends a wait, not the step.
while wait $step; status=$?; kill -0 $step 2> /dev/null; do :; done

[ ! -e %(prefix)s.refused.$restarts ] || end 2
[ $status -ne 0 ] || [ -e %(prefix)s.interrupted.$restarts ] || end 0
[ -z "$told" ] || exit 143
[ $status -ne 0 ] || status=75
[ "$restarts" -ge %(most)d ] || ! scontrol requeue "$SLURM_JOB_ID" || exit $status
end $status
"""


def stage_script(job: Job, stage: Stage, options: SlurmOptions) -> str:
    """The script that runs a stage, and has itself queued again if it must."""
    lines = ["#!/bin/bash", *header(options, f"seqloom-{job.id}-{stage}")]
    lines += [
        f"#SBATCH --ntasks={job.processes(stage)}",
        f"#SBATCH --output={job.logs}/{stage}-batch.log",
    ]
    if stage == "train":
        lines.append(f"#SBATCH --signal=B:USR1@{options.save_seconds}")
    if stage == "train" and job.gpus_per_worker:
        lines.append(f"#SBATCH --gpus-per-task={job.gpus_per_worker}")
    lines += ["", f"cd {shlex.quote(str(job.directory))} || exit 1"]
    for name, value in {
        "PYTHONPATH": python_path(),
        "PYTHONUNBUFFERED": "1",
        **job.environment,
    }.items():
        lines.append(f"export {name}={shlex.quote(value)}")
    task = [
        *module_command("pipeline.submit.slurm_task"),
        *(str(options.port), str(job.folder / stage)),
    ]
    body = _BODY % {
        "logs": shlex.quote(str(job.logs)),
        "stage": stage,
        "task": shlex.join(task),
        "arguments": shlex.join(job.arguments(stage)),
        "prefix": shlex.quote(str(job.folder / stage)),
        "outcome": shlex.quote(str(outcome_path(job, stage))),
        "most": job.max_restarts,
    }
    return "\n".join(lines) + "\n" + body


def outcome_path(job: Job, stage: Stage) -> Place:
    """Where a stage's exit status and restarts are left when it has ended for good."""
    return job.folder / f"{stage}.outcome"
