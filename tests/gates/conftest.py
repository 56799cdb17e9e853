"""Gates on clips draw them by a program of `data/`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "data"))
