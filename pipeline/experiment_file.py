"""The YAML form of an experiment: reading it, overriding it, and saying what is wrong in it."""

import difflib
import json
import os
import re
import typing
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any

import pydantic
import yaml

from models.errors import UserError
from pipeline.experiment import Experiment, Section
from pipeline.places import Place, UrlPath, place
from pipeline.workspace import Workspace, write_text

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_DOTTED = re.compile(r"\w+(?:\.\w+)+")
_RECORDED_LIBRARIES = ("tensorflow", "keras", "tensorflow-text", "keras-nlp", "apache-beam")
_BEAM_KEYS = {
    "--runner": "runner",
    "--direct_num_workers": "workers",
    "--direct_running_mode": "running_mode",
}

Path = tuple[str | int, ...]


def load_experiment(path: str | os.PathLike | UrlPath, overrides: Iterable[str] = ()) -> Experiment:
    """Read an experiment.

    `${NAME}` in a value stands for the environment variable NAME. Relative paths in the
    experiment are relative to the folder the command is run in.

    Args:
        path: The YAML file, or its URL.
        overrides: Settings of the form `section.key=value`; the value is read as YAML.

    Returns:
        The experiment, complete with defaults.

    Raises:
        UserError: If the file cannot be read or a key or value is wrong. One message names
            every mistake, each with its file, line and key.
    """
    path = place(str(path))
    try:
        return _load(path, overrides)
    except RecursionError:
        raise UserError(
            f"{path}, or a --set: nested too deeply, or an alias (*name) stands inside what its "
            f"anchor (&name) names; write the value out"
        ) from None


def _load(path: Place, overrides: Iterable[str]) -> Experiment:
    document, lines = _read_yaml(path)
    origins = {key: f"{path}, line {line}" for key, line in lines.items()}
    for override in overrides:
        key = _override(document, override)
        origins[key] = f"--set {override}"
    try:
        return Experiment.model_validate(_expand(document, (), origins))
    except pydantic.ValidationError as error:
        mistakes = [_explain(detail, origins, path) for detail in error.errors()]
        raise UserError("\n".join(mistakes)) from None


def beam_overrides(flags: Sequence[str]) -> list[str]:
    """Flags of Beam as settings of the section `cluster`.

    The runner, and the number and kind of workers of the local one, have keys of their own;
    all other flags become `cluster.beam_options`.

    Args:
        flags: Such as `--runner=FlinkRunner` or `--streaming`.

    Raises:
        UserError: If one of them is not a flag.
    """
    settings, others = [], []
    for flag in flags:
        name, equals, value = flag.partition("=")
        if not name.startswith("--"):
            raise UserError(f"{flag}: expected a flag of Beam, such as --runner=FnApiRunner")
        if name in _BEAM_KEYS and equals:
            settings.append(f"cluster.{_BEAM_KEYS[name]}={value}")
        else:
            others.append(flag)
    return [*settings, *([f"cluster.beam_options={json.dumps(others)}"] if others else [])]


def dump_experiment(experiment: Experiment) -> str:
    """The YAML of an experiment with every key, readable by `load_experiment`."""
    return yaml.safe_dump(experiment.model_dump(), sort_keys=False, allow_unicode=True)


def workspace_of(experiment: Experiment) -> Workspace:
    """The workspace of an experiment: its `workspace` key, or `runs/<name>`."""
    root = place(experiment.workspace or f"runs/{experiment.name}")
    return Workspace(root, experiment.data.folder)


def record_experiment(experiment: Experiment, workspace: Workspace) -> None:
    """Write the resolved experiment into its workspace, with the libraries' versions."""
    versions = "".join(
        f"# {library} {metadata.version(library)}\n" for library in _RECORDED_LIBRARIES
    )
    write_text(workspace.experiment, versions + dump_experiment(experiment))


def _read_yaml(path: Place) -> tuple[dict, dict[Path, int]]:
    """The document and the line, from 1, of each of its keys."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: no such experiment file") from None
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{path}: cannot be read as an experiment ({reason})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise UserError(
            f"{path}: expected keys such as 'name' and 'data' at the top, found "
            f"{'nothing' if document is None else type(document).__name__}"
        )
    lines: dict[Path, int] = {}
    _collect_lines(node, (), lines, path)
    return document, lines


def _collect_lines(node: yaml.Node, at: Path, lines: dict[Path, int], path: Place) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            place = (*at, key.value)
            line = key.start_mark.line + 1
            if place in lines:
                raise UserError(
                    f"{path}, line {line}: the key '{_dotted(place)}' stands twice, first in "
                    f"line {lines[place]}; keep one"
                )
            lines[place] = line
            _collect_lines(value, place, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*at, index)] = value.start_mark.line + 1
            _collect_lines(value, (*at, index), lines, path)


def _override(document: dict, override: str) -> Path:
    """Apply one `--set` to the document and return the key it set."""
    name, equals, text = override.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise UserError(f"--set {override}: expected section.key=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise UserError(f"--set {override}: the value is not valid YAML") from None
    place: list[str | int] = []
    inner: Any = document
    for key in keys:
        if place:
            inner = _descend(inner, place[-1], override)
        place.append(_index(inner, key, override) if isinstance(inner, list) else key)
    last: Any = place[-1]
    if not isinstance(inner, dict | list):
        raise UserError(f"--set {override}: '{_dotted(place[:-1])}' is a value, not a section")
    inner[last] = value
    return tuple(place)


def _descend(inner: Any, key: str | int, override: str) -> Any:
    if isinstance(inner, dict):
        if inner.get(key) is None:
            inner[key] = {}
        return inner[key]
    if isinstance(inner, list) and isinstance(key, int):
        return inner[key]
    raise UserError(f"--set {override}: there is no section above '{key}'")


def _index(inner: list, key: str, override: str) -> int:
    if key.isdecimal() and int(key) < len(inner):
        return int(key)
    raise UserError(
        f"--set {override}: '{key}' must be the number of one of {len(inner)} entries, from 0"
    )


def _expand(value: Any, at: Path, origins: dict[Path, str]) -> Any:
    """The document with `${NAME}` replaced from the environment."""
    if isinstance(value, dict):
        return {key: _expand(inner, (*at, key), origins) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expand(inner, (*at, index), origins) for index, inner in enumerate(value)]
    if isinstance(value, str):
        if not _is_writable(value):
            origin = _nearest_origin(at, origins, "experiment")
            raise UserError(
                f"{origin}: '{_dotted(at)}' is {value!r}, with a character that neither a text nor "
                f"a path can hold; take it out"
            )
        return _VARIABLE.sub(lambda match: _variable(match[1], at, origins), value)
    return value


def _is_writable(text: str) -> bool:
    """Whether a text holds no NUL and no half of a surrogate pair."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _variable(name: str, at: Path, origins: dict[Path, str]) -> str:
    if name not in os.environ:
        origin = _nearest_origin(at, origins, "experiment")
        raise UserError(
            f"{origin}: '{_dotted(at)}' uses the environment variable {name}, which is not set; "
            f"set it or write the path out"
        )
    return os.environ[name]


def _explain(detail: Any, origins: dict[Path, str], path: Place) -> str:
    """One line for one of pydantic's errors."""
    place: Path = detail["loc"]
    origin = _nearest_origin(place, origins, str(path))
    if detail["type"] == "extra_forbidden":
        return f"{origin}: unknown key '{_dotted(place)}'{_suggestion(place)}"
    if detail["type"] == "missing":
        return f"{origin}: the key '{_dotted(place)}' is missing"
    message = detail["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if detail["type"] == "model_type":
        message = "expected a section of keys; give it some, or leave it out"
    if detail["type"] == "string_pattern_mismatch":
        message = "expected a letter or digit, and then also dots, dashes and underscores"
    if detail["type"] == "value_error":  # Of a whole experiment it names the keys itself.
        named = (tuple(name.split(".")) for name in _DOTTED.findall(message))
        origin = next((origins[each] for each in named if each in origins), origin)
        return f"{origin}: '{_dotted(place)}': {message}" if place else f"{origin}: {message}"
    return f"{origin}: '{_dotted(place)}' is {detail['input']!r}; {message}"


def _suggestion(place: Path) -> str:
    known = _known_keys(place[:-1])
    section = f" in '{_dotted(place[:-1])}'" if len(place) > 1 else " at the top"
    near = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.4)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known keys{section}: {', '.join(known)}"


def _known_keys(place: Path) -> list[str]:
    """Names of the keys of the section at a place."""
    section: Any = Experiment
    for key in place:
        if isinstance(key, str):
            section = _section_of(section.model_fields[key].annotation)
    return list(section.model_fields)


def _section_of(annotation: Any) -> type[Section]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(_section_of(inner) for inner in typing.get_args(annotation))


def _nearest_origin(place: Path, origins: dict[Path, str], default: str) -> str:
    """Where the value at a place was written, or the section that should hold it."""
    for length in range(len(place), 0, -1):
        if place[:length] in origins:
            return origins[place[:length]]
    return default


def _dotted(place: Iterable[str | int]) -> str:
    return ".".join(str(key) for key in place)
