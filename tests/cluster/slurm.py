"""A Slurm of two nodes on this machine, without systemd and without the machine's own settings."""

import contextlib
import dataclasses
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel")
PACKAGES = ("slurm-wlm", "munge")
PLACES = "/usr/sbin:/usr/bin:/sbin:/bin"
DEADLINE = 60  # seconds for the nodes to come up

CONFIG = """\
ClusterName=seqloom
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0
SchedulerType=sched/builtin
KillWait=10
InactiveLimit=0
MessageTimeout=60
SlurmdTimeout=300
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[0]} CPUs=1 RealMemory=2000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=2000
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


@dataclasses.dataclass(frozen=True)
class Slurm:
    """A running cluster.

    Attributes:
        folder: Of its files.
        variables: That its commands need.
    """

    folder: pathlib.Path
    variables: dict[str, str]

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, env={**os.environ, **self.variables}, capture_output=True, text=True
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout


def require_programs() -> None:
    """Install Slurm where that can be done, and skip the test where it is not to be had."""
    if all(shutil.which(name, path=PLACES) for name in PROGRAMS):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip(f"Slurm is not installed; install the packages {' and '.join(PACKAGES)}")
    for command in (["update", "-qq"], ["install", "-qq", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(
            ["apt-get", "-y", "-o", "DPkg::Lock::Timeout=120", *command],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            pytest.skip(f"Slurm could not be installed: {done.stderr.strip()[-300:]}")


@contextlib.contextmanager
def running_slurm(folder: pathlib.Path) -> Iterator[Slurm]:
    """Start the daemons, wait until both nodes are idle, and end all of it at the end.

    Args:
        folder: An empty one that root can write in, with a short path, for its socket.
    """
    host = socket.gethostname().partition(".")[0]
    ports = _free_ports(3)
    # A name of its own for the running user: in a container it may have none but root's.
    user = pwd.getpwuid(os.geteuid()).pw_name
    config = folder / "slurm.conf"
    config.write_text(
        CONFIG.format(
            host=host, user=user, folder=folder, controller_port=ports[0], ports=ports[1:]
        )
    )
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    # munged wants to be sure that nobody else can write beside its files.
    folder.chmod(0o755)
    variables = {"SLURM_CONF": str(config), "PATH": f"{PLACES}:{os.environ['PATH']}"}
    daemons = [
        [
            *("munged", "--foreground", "--force", f"--key-file={key}"),
            *(f"--socket={folder}/munge.socket", f"--pid-file={folder}/munge.pid"),
            *(f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munge.log"),
        ],
        ["slurmctld", "-D", "-f", str(config)],
        ["slurmd", "-D", "-N", "n1", "-f", str(config)],
        ["slurmd", "-D", "-N", "n2", "-f", str(config)],
    ]
    with contextlib.ExitStack() as stack:
        for command in daemons:
            log = stack.enter_context((folder / "daemons.log").open("ab"))
            daemon = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **variables}
            )
            stack.callback(_end, daemon)
            if command[0] == "munged":
                _wait_until((folder / "munge.socket").exists, folder)
        slurm = Slurm(folder, variables)
        _wait_until(lambda: _idle_nodes(slurm) == ["n1", "n2"], folder)
        yield slurm
        slurm.run("scancel", "--quiet", f"--user={user}")
        _wait_until(lambda: not slurm.run("squeue", "--noheader").strip(), folder)


def _idle_nodes(slurm: Slurm) -> list[str]:
    done = subprocess.run(
        ["sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"],
        env={**os.environ, **slurm.variables},
        capture_output=True,
        text=True,
    )
    return sorted(done.stdout.split())


def _wait_until(condition, folder: pathlib.Path) -> None:
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > DEADLINE:
            logs = [f"{log.name}:\n{log.read_text()[-1500:]}" for log in folder.glob("*.log")]
            raise AssertionError("Slurm did not get ready\n" + "\n".join(logs))
        time.sleep(0.1)


def _end(daemon: subprocess.Popen) -> None:
    daemon.terminate()
    try:
        daemon.wait(timeout=20)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
