"""The targets by the names that `--target` takes."""

from models.errors import UserError
from serving.deploy.contract import Target
from serving.deploy.docker import Docker
from serving.deploy.kubernetes import Kubernetes

TARGETS: dict[str, type[Target]] = {"docker": Docker, "kubernetes": Kubernetes}


def make_target(name: str) -> Target:
    """The target of a name.

    Raises:
        UserError: If there is none, or a package that it needs is not installed.
    """
    if name not in TARGETS:
        raise UserError(f"--target {name}: expected one of {', '.join(TARGETS)}")
    return TARGETS[name]()
