"""TensorFlow Serving's flags that the embedded server does not follow.

They are read all the same: the real server gets them when it takes this one's place. Where it does
not, a flag that asks for other answers or another protection is refused, and one that asks for
other threads or caches is told of.
"""

import dataclasses
import logging
from collections.abc import Mapping

from models.errors import UserError
from serving.server.flag_values import NUMBER, SWITCH, TEXT, Kind
from serving.server.options import Value

_log = logging.getLogger("seqloom.serving")


@dataclasses.dataclass(frozen=True)
class OtherFlag:
    """A flag that is not followed.

    Attributes:
        kind: What it takes.
        reason: Why it is not followed.
        idle: The value that asks for nothing; None where no value does any harm.
    """

    kind: Kind
    reason: str
    idle: Value | None = None


_LITE = "TensorFlow Lite is not served here"
_XLA = "functions that XLA must compile are refused here, as they are there without the flag"

OTHER_FLAGS = {
    "num_load_threads": OtherFlag(NUMBER, "each model loads in a thread of its own"),
    "num_unload_threads": OtherFlag(NUMBER, "each version is unloaded in a thread of its own"),
    "flush_filesystem_caches": OtherFlag(SWITCH, "the system's cache of files is left alone"),
    "remove_unused_fields_from_bundle_metagraph": OtherFlag(
        SWITCH, "of a graph's description only the signatures are kept"
    ),
    "num_tflite_pools": OtherFlag(NUMBER, _LITE),
    "num_tflite_interpreters_per_pool": OtherFlag(NUMBER, _LITE),
    "skip_initialize_tpu": OtherFlag(SWITCH, "TPUs are not used here"),
    "prefer_tflite_model": OtherFlag(SWITCH, _LITE, idle=False),
    "xla_cpu_compilation_enabled": OtherFlag(SWITCH, _XLA, idle=False),
    "xla_gpu_compilation_enabled": OtherFlag(SWITCH, _XLA, idle=False),
    "use_alts_credentials": OtherFlag(
        SWITCH, "the library of gRPC for Python has no such servers", idle=False
    ),
    "platform_config_file": OtherFlag(TEXT, "the platform is TensorFlow", idle=""),
    "thread_pool_factory_config_file": OtherFlag(
        TEXT, "TensorFlow's own threads run the graphs", idle=""
    ),
    "mixed_precision": OtherFlag(
        TEXT, "graphs run in the precision they were exported in", idle=""
    ),
}


def refuse_others(given: Mapping[str, Value]) -> None:
    """Refuse the flags that ask for what the embedded server cannot do, and tell of the rest.

    Args:
        given: Values by name.

    Raises:
        UserError: If one is refused.
    """
    for name, value in given.items():
        flag = OTHER_FLAGS[name]
        if flag.idle is None:
            _log.warning("--%s does nothing in the embedded server: %s", name, flag.reason)
        elif value != flag.idle:
            raise UserError(
                f"--{name}: the embedded server cannot follow it: {flag.reason}. Leave it out, or "
                "take the engine tensorflow"
            )
