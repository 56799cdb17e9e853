"""The decoders by name."""

from models.decoders.bahdanau import BahdanauDecoder
from models.decoders.contract import Decoder
from models.decoders.luong import LuongDecoder

DECODERS: dict[str, type[Decoder]] = {"luong": LuongDecoder, "bahdanau": BahdanauDecoder}
