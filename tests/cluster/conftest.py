"""A Slurm that the tests of a file share."""

import pathlib
import shutil
import tempfile

import pytest
from cluster.slurm import require_programs, running_slurm


@pytest.fixture(scope="module")
def slurm():
    """A cluster of two nodes with a core each."""
    require_programs()
    # Not pytest's own folder: the name of a socket holds a hundred characters.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="seqloom-slurm-"))
    try:
        with running_slurm(folder) as cluster:
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)
