"""The arrows between the packages, read from the import statements of every module."""

import ast
import pathlib
import subprocess
import sys

import pytest

PROJECT = pathlib.Path(__file__).parents[1]
PACKAGES = ("models", "pipeline", "serving")
# What takes seconds to import, or imports what does.
HEAVY = ("tensorflow", "keras", "keras_nlp", "tensorflow_text", "tensorflow_serving")


def module_name(path):
    parts = path.relative_to(PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): path
    for package in PACKAGES
    for path in sorted((PROJECT / package).rglob("*.py"))
}


def imports_of(source, name, is_package=False):
    """Absolute names of all modules that a module's text imports, within functions too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, name, is_package)
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def absolute(node, name, is_package):
    """What stands after `from`, its dots resolved."""
    if not node.level:
        return node.module
    package = name.split(".") if is_package else name.split(".")[:-1]
    package = package[: len(package) - (node.level - 1)]
    return ".".join([*package, *([node.module] if node.module else [])])


def imports(name):
    path = MODULES[name]
    return imports_of(path.read_text(encoding="utf-8"), name, path.name == "__init__.py")


def below(name, *packages):
    """Whether a module is one of some packages or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def modules_in(*packages):
    return [name for name in MODULES if below(name, *packages)]


def reached_from(name):
    """A module of the project and all others that it imports, directly or not."""
    reached, open_ = set(), [name]
    while open_:
        name = open_.pop()
        if name in MODULES and name not in reached:
            reached.add(name)
            open_ += imports(name)
            # Importing a module runs the packages around it.
            open_ += [name.rpartition(".")[0]]
    return reached


def test_every_package_is_read():
    for package in PACKAGES:
        assert len(modules_in(package)) > 10, package


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b, c", {"a.b", "c"}),
        ("def f():\n    from a import b as d", {"a", "a.b"}),
        ("from . import x", {"models.search", "models.search.x"}),
        ("from .x import y", {"models.search.x", "models.search.x.y"}),
        ("from ..x import y", {"models.x", "models.x.y"}),
    ],
)
def test_imports_are_found_wherever_they_stand(source, expected):
    assert imports_of(source, "models.search.beam") == expected
    assert imports_of(source, "models.search", is_package=True) == expected


@pytest.mark.parametrize("name", modules_in("models"))
def test_models_know_nothing_of_files_servers_or_the_command_line(name):
    strangers = ("pipeline", "serving", "typer", "argparse", "rich", "grpc", "apache_beam")
    assert not [each for each in imports(name) if below(each, *strangers)]


@pytest.mark.parametrize("name", modules_in("serving"))
def test_serving_does_not_know_the_pipeline(name):
    assert not [each for each in imports(name) if below(each, "pipeline")]


@pytest.mark.parametrize("name", modules_in("serving.server", "serving.client"))
def test_the_server_and_the_client_know_no_model(name):
    for reached in reached_from(name):
        known = [each for each in imports(reached) if below(each, "models", "pipeline")]
        assert not [each for each in known if not below(each, "models.errors")], reached


def test_nothing_that_the_client_imports_imports_tensorflow():
    reached = reached_from("serving.client")
    assert {"serving.client", "models.errors", "serving.signatures"} <= reached
    for name in reached:
        assert not [each for each in imports(name) if below(each, *HEAVY)], name


@pytest.mark.parametrize(
    "name",
    ["serving.client", "pipeline.serve", "pipeline.experiment_file", "pipeline.prepare.stages"],
)
def test_what_needs_no_tensorflow_starts_without_it(name):
    """The packages it imports from elsewhere bring none either."""
    program = (
        f"import sys, {name}\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules], sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_the_errors_of_users_import_nothing():
    assert imports("models.errors") == set()
