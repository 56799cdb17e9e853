"""Entry point of a Beam worker process: `python -P -m pipeline.prepare.worker`.

The parent holds the other end of standard input and never writes to it. When the parent
ends, however it ends, the pipe closes and the worker ends with it.
"""

import os
import signal
import sys
import threading


def main() -> None:
    """Serve the parent's Beam runner until it has no more work."""
    # The terminal sends Ctrl-C to the whole group; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import pipeline.prepare.engine  # noqa: F401  (silences the import below)

    from apache_beam.runners.worker import sdk_worker_main  # isort: skip

    sdk_worker_main.main(sys.argv)


def _end_with_parent() -> None:
    # Not sys.stdin: its lock, held here, would be fatal when the interpreter ends.
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
