"""The image for training: linted, and built and run where there are the means."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from command import ROOT

BASE = "docker.io/library/python"
SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
# What the base image has and a bare Debian lacks.
PACKAGES = "python3,python3-venv,ca-certificates"
# The builder's own settings of pip and certificates, if any: the build reaches the same index.
SETTINGS = ("/etc/pip.conf", "/etc/ssl/certs")
VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "PIP_FIND_LINKS")


def run(*command, **how):
    done = subprocess.run(command, capture_output=True, text=True, **how)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout


def test_the_dockerfile_is_clean():
    linter = shutil.which("hadolint", path=f"{pathlib.Path(sys.executable).parent}")
    if not linter:
        pytest.skip("hadolint is not installed; the extra dev has it")
    assert run(linter, str(ROOT / "Dockerfile")) == ""


def base_tag():
    """Name of the image that the Dockerfile starts from."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    (line,) = [each for each in lines if each.startswith("ARG PYTHON_IMAGE=")]
    return line.partition("=")[2].partition(":")[2]


@pytest.fixture
def builder(tmp_path):
    """buildah with stores of its own, in which the base image is a Debian made here."""
    if not os.environ.get("SEQLOOM_IMAGE"):
        pytest.skip("building the image takes minutes and 8 GB; SEQLOOM_IMAGE=1 has it built")
    for name in ("buildah", "debootstrap"):
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed")
    if os.geteuid() != 0:
        pytest.skip("debootstrap needs root")
    system = tmp_path / "debian"
    run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(system), MIRROR)
    (system / "usr/local/bin/python").symlink_to("/usr/bin/python3")

    def buildah(verb, *arguments):
        stores = ("--root", f"{tmp_path}/root", "--runroot", f"{tmp_path}/runroot")
        return run("buildah", *stores, "--storage-driver", "vfs", verb, *arguments, cwd=ROOT)

    container = buildah("from", "scratch").strip()
    buildah("add", "--quiet", container, str(system), "/")
    buildah("commit", "--quiet", "--rm", container, f"{BASE}:{base_tag()}")
    shutil.rmtree(system)
    yield buildah
    shutil.rmtree(tmp_path / "root", ignore_errors=True)


def settings():
    """Options that hand the builder's settings to a build."""
    given = [f"--env={name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    places = [*SETTINGS, *os.environ.get("PIP_FIND_LINKS", "").split()]
    places += [os.environ["PIP_CERT"]] if "PIP_CERT" in os.environ else []
    mounted = [f"--volume={each}:{each}:ro" for each in places if pathlib.Path(each).exists()]
    return [*given, *dict.fromkeys(mounted)]


def test_the_training_image_prepares_and_trains(builder):
    builder(
        *("bud", "--isolation", "chroot", "--pull-never", "--target", "train"),
        *("--tag", "seqloom", "--layers=false", *settings(), str(ROOT)),
    )
    container = builder("from", "--pull-never", "localhost/seqloom").strip()
    command = ["run", "--isolation", "chroot", container, "--", "seqloom"]
    assert "seqloom 0." in builder(*command, "--version")
    short = [
        *("--set=train.max_steps=2", "--set=data.train.0.path=data/help.zh-en.test.tsv.gz"),
        *("--set=vocabulary.source_size=2000", "--set=vocabulary.target_size=500"),
        *("--set=train.validation_sentences=2", "--set=cluster.running_mode=in_memory"),
    ]
    prepared = builder(*command, "prepare", "configs/demo.yaml", *short)
    assert "records, vocabularies and manifest are in runs/" in prepared
    assert "Training ended at step 2" in builder(*command, "train", "configs/demo.yaml", *short)
    assert builder("run", "--isolation", "chroot", container, "--", "id", "-u").strip() == "10001"
