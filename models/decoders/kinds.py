"""The decoders by name."""

from models.decoders.bahdanau import BahdanauDecoder
from models.decoders.contract import Decoder
from models.decoders.gated import GatedDecoder
from models.decoders.luong import LuongDecoder
from models.decoders.plain import EveryStepDecoder, FirstInputDecoder

DECODERS: dict[str, type[Decoder]] = {"luong": LuongDecoder, "bahdanau": BahdanauDecoder}

# Decoders of captions: with attention over the grid of a picture, or with its mean alone.
CAPTION_DECODERS: dict[str, type[Decoder]] = {
    "gated": GatedDecoder,
    "first_input": FirstInputDecoder,
    "every_step": EveryStepDecoder,
}
