import os
import pathlib
import shutil

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@pytest.fixture(scope="session")
def tiny_exports(tmp_path_factory) -> dict[str, pathlib.Path]:
    """SavedModels by the mark that stands before their translations."""
    from tests.serving.server import tiny_models

    folder = tmp_path_factory.mktemp("exports")
    return {mark: tiny_models.save(folder / f"marked{mark}", mark) for mark in ("", "two ")}


@pytest.fixture
def base_path(tmp_path, tiny_exports) -> pathlib.Path:
    """The base path of a model that has version 1."""
    base = tmp_path / "translation"
    shutil.copytree(tiny_exports[""], base / "1")
    return base


@pytest.fixture(scope="session")
def tiny_server(tmp_path_factory, tiny_exports):
    """A server of version 3 of the model `translation`, for tests that leave it as it is."""
    from serving.server.main import Server
    from serving.server.options import ServerOptions

    base = tmp_path_factory.mktemp("served") / "translation"
    shutil.copytree(tiny_exports[""], base / "3")
    options = ServerOptions("translation", base, port=0, rest_api_port=0)
    with Server(options) as server:
        yield server
