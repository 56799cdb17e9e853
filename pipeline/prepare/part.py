"""Entry point of a job of an array: `python -P -m pipeline.prepare.part PLAN PHASE INDEX`."""

import sys

from pipeline.places import place
from pipeline.prepare.parts import read_plan, run_part


def main() -> None:
    """Run the part that the command line names."""
    path, phase, index = sys.argv[1:]
    run_part(read_plan(place(path)), phase, int(index))


if __name__ == "__main__":
    main()
