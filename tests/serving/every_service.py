"""A tiny model of every kind that is exported, with first weights, behind its service."""

from models.answering import AnsweringModel
from models.captioning import CaptioningModel
from models.classification import ClassificationModel
from models.frame_tagging import FrameTaggingModel
from models.language_model import LanguageModel
from models.lip_reading import LipReadingModel
from models.search.hypotheses import SearchOptions
from models.separators import QUESTION, SENTENCE
from models.tagging import TaggingModel
from models.tokenizers import LabelText, SentencePieceText, WordText
from models.translation import TranslationModel
from models.vision.kinds import make_backbone
from models.visual_answering import VisualAnsweringModel
from models.visual_generation import VisualGenerationModel
from models.vocabulary_pieces import dump_pieces
from serving.services.answering import AnsweringOptions, AnsweringService
from serving.services.captioning import CaptioningOptions, CaptioningService
from serving.services.classification import ClassificationService
from serving.services.frame_tagging import FrameTaggingService
from serving.services.language_model import LanguageModelOptions, LanguageModelService
from serving.services.lip_reading import LipReadingOptions, LipReadingService
from serving.services.tagging import TaggingService
from serving.services.translation import TranslationOptions, TranslationService
from serving.services.visual_answering import (
    VisualAnsweringOptions,
    VisualAnsweringService,
    VisualGenerationService,
)
from tests.models.examples import randomize

NOTES = ["C4:4", "D4:2", "E4:4", "G4:2"]
SEARCH = SearchOptions(beam_size=2, max_length_factor=1.0, max_length_extra=2)
SMALL = {"embedding_size": 4, "encoder": {"units": 3}}
FRAMES = {"units": 3, "backbone": {"name": "tiny", "weights": None}}


def words():
    pieces = ["a", "small", "model", "of", "words", SENTENCE, QUESTION]
    return WordText(dump_pieces("word", pieces))


def labels():
    return LabelText(dump_pieces("label", ["yes", "no", "perhaps so"]))


def translation(proto):
    source, target = SentencePieceText(proto), SentencePieceText(proto)
    model = TranslationModel(source.size, target.size, decoder={"units": 6}, **SMALL)
    model.build()
    return TranslationService(
        randomize(model), source, target, TranslationOptions(SEARCH, nbest=2, max_source_length=9)
    )


def language_model(proto):
    vocabulary = SentencePieceText(proto)
    model = LanguageModel(vocabulary.size, embedding_size=4, units=4)
    model.build()
    return LanguageModelService(randomize(model), vocabulary, LanguageModelOptions(9, 6))


def music(_):
    vocabulary = WordText(dump_pieces("word", [*NOTES, "a", "words"]))
    model = LanguageModel(vocabulary.size, cell="gru", embedding_size=4, units=4)
    model.build()
    return LanguageModelService(randomize(model), vocabulary, LanguageModelOptions(9, 6))


def classification(_):
    source, target = words(), labels()
    model = ClassificationModel(source.size, target.size, "attention", attention_units=3, **SMALL)
    model.build()
    return ClassificationService(randomize(model), source, target, 9)


def tagging(_):
    source, target = words(), labels()
    model = TaggingModel(source.size, target.size, **SMALL)
    model.build()
    return TaggingService(randomize(model), source, target, None, 9)


def answering(_):
    source, target = words(), labels()
    model = AnsweringModel(
        source.size,
        target.size,
        source.piece_id(SENTENCE),
        hops=2,
        embedding_size=4,
        stack={"cell": "gru", "units": 2, "layers": 1, "residual": False, "bidirectional": True},
    )
    model.build()
    return AnsweringService(randomize(model), source, target, AnsweringOptions(9))


def captioning(proto):
    vocabulary, backbone = SentencePieceText(proto), make_backbone("small")
    backbone.build((None, backbone.picture_size, backbone.picture_size, 3))
    model = CaptioningModel(
        backbone.feature_size, vocabulary.size, embedding_size=4, decoder={"units": 5}
    )
    model.build()
    options = CaptioningOptions(SEARCH, max_pixels=1 << 20)
    return CaptioningService(randomize(model), backbone, vocabulary, options)


def visual_answering(_):
    return seen(VisualAnsweringModel, VisualAnsweringService, words(), labels())


def visual_generation(proto):
    texts = SentencePieceText(proto), SentencePieceText(proto)
    return seen(VisualGenerationModel, VisualGenerationService, *texts, decoder={"units": 6})


def lip_reading(proto):
    vocabulary = SentencePieceText(proto)
    model = LipReadingModel(vocabulary.size, embedding_size=4, encoder=FRAMES, decoder={"units": 6})
    model.build()
    options = LipReadingOptions(SEARCH, max_pixels=1 << 20, max_frames=9)
    return LipReadingService(randomize(model), vocabulary, options)


def frame_tagging(_):
    target = labels()
    model = FrameTaggingModel(target.size, embedding_size=4, encoder=FRAMES)
    model.build()
    return FrameTaggingService(randomize(model), target, 1 << 20, 9)


def seen(model_type, service_type, source, target, **options):
    backbone = make_backbone("small")
    backbone.build((None, backbone.picture_size, backbone.picture_size, 3))
    encoder = {"units": 3, "feature_size": backbone.feature_size}
    model = model_type(source.size, target.size, embedding_size=4, encoder=encoder, **options)
    model.build()
    baked = VisualAnsweringOptions(SEARCH, max_pixels=1 << 20, max_source_length=9)
    return service_type(randomize(model), backbone, source, target, baked)


EVERY_SERVICE = {
    "translation": translation,
    "language_model": language_model,
    "music": music,
    "classification": classification,
    "tagging": tagging,
    "answering": answering,
    "captioning": captioning,
    "visual_answering": visual_answering,
    "visual_generation": visual_generation,
    "lip_reading": lip_reading,
    "frame_tagging": frame_tagging,
}
