"""The container files: what the Dockerfile builds, and that the builder is sent what it copies."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).parents[1]


@dataclasses.dataclass
class Stage:
    name: str
    base: str
    instructions: list[tuple[str, str]]

    def values(self, keyword):
        return [value for found, value in self.instructions if found == keyword]


def dockerfile_instructions():
    text = (PROJECT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    for line in filter(str.strip, joined.splitlines()):
        keyword, value = line.strip().split(maxsplit=1)
        yield keyword.upper(), value


@pytest.fixture
def stages():
    """Stages by name; a base given by an argument is that argument's default."""
    arguments, stages = {}, {}
    for keyword, value in dockerfile_instructions():
        if keyword == "FROM":
            image, name = re.fullmatch(r"(\S+) AS (\S+)", value).groups()
            base = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], image)
            stages[name] = Stage(name, base, [])
        elif not stages:
            assert keyword == "ARG"
            arguments.update([value.split("=", 1)])
        else:
            list(stages.values())[-1].instructions.append((keyword, value))
    return stages


def test_the_stages_and_the_one_built_by_default(stages):
    assert list(stages) == ["environment", "serve", "serve-export", "train"]


def test_the_bases_are_pinned(stages):
    assert stages["serve"].base == "tensorflow/serving:2.20.0"
    assert stages["serve-export"].base == "serve"
    for name in ("environment", "train"):
        assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", stages[name].base)


@pytest.mark.parametrize("name", ["serve", "train"])
def test_tini_is_installed_and_process_one(stages, name):
    assert any(re.search(r"apt-get install .*\btini\b", run) for run in stages[name].values("RUN"))
    (entrypoint,) = stages[name].values("ENTRYPOINT")
    assert json.loads(entrypoint)[0] == "tini"


def test_the_server_and_its_script_both_get_the_signal(stages):
    (entrypoint,) = stages["serve"].values("ENTRYPOINT")
    words = json.loads(entrypoint)
    assert "-g" in words[: words.index("--")]
    assert words[words.index("--") + 1] == "/usr/bin/tf_serving_entrypoint.sh"


def test_the_entry_point_of_the_train_image_is_the_command(stages):
    (entrypoint,) = stages["train"].values("ENTRYPOINT")
    command = json.loads(entrypoint)[-1]
    setup = (PROJECT / "setup.py").read_text(encoding="utf-8")
    assert command == "seqloom"
    assert re.search(rf"console_scripts.*\b{command}=", setup)


@pytest.mark.parametrize("name", ["serve", "train"])
def test_images_run_as_a_user_who_is_not_root_given_by_number(stages, name):
    last_user = stages[name].values("USER")[-1]
    user, group = last_user.split(":")
    assert int(user) > 0 and int(group) > 0


def test_a_model_inside_the_image_changes_neither_user_nor_entry_point(stages):
    keywords = [keyword for keyword, _ in stages["serve-export"].instructions]
    assert keywords == ["ARG", "COPY"]
    (argument,) = stages["serve-export"].values("ARG")
    assert re.fullmatch(r"EXPORT=\S+", argument)


def copied_from_context(stages):
    for stage in stages.values():
        for value in stage.values("COPY"):
            if "--from=" not in value and "${" not in value:
                yield from (word for word in value.split()[:-1] if not word.startswith("--"))


def test_what_is_copied_exists_and_is_sent_to_the_builder(stages):
    ignore = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in ignore if line and not line.startswith("#")]
    assert patterns[0] == "*"
    sources = set(copied_from_context(stages))
    assert sources >= {"setup.py", "models", "pipeline", "serving", "configs", "data"}
    assert {f"!{source}" for source in sources} <= set(patterns)
    assert [source for source in sorted(sources) if not (PROJECT / source).exists()] == []


def install(stages, tmp_path, device):
    """Run the installing instruction in a shell whose pip writes down its arguments."""
    (instruction,) = (run for run in stages["environment"].values("RUN") if "DEVICE" in run)
    script = re.sub(r"^(--mount=\S+\s+)+", "", instruction)
    pip = tmp_path / "pip"
    pip.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n')
    pip.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DEVICE": device}
    return subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("device", "expected"), [("cpu", "install ."), ("gpu", "install .[gpu]")])
def test_the_device_chooses_what_is_installed(stages, tmp_path, device, expected):
    assert install(stages, tmp_path, device).returncode == 0
    assert (tmp_path / "arguments").read_text().strip() == expected
    setup = (PROJECT / "setup.py").read_text(encoding="utf-8")
    assert all(f'"{extra}": [' in setup for extra in re.findall(r"\[(\w+)\]", expected))


def test_an_unknown_device_stops_the_build(stages, tmp_path):
    finished = install(stages, tmp_path, "tpu")
    assert finished.returncode == 2
    assert "DEVICE: 'tpu' is not one of cpu, gpu" in finished.stderr
    assert not (tmp_path / "arguments").exists()
