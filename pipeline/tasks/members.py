"""The tasks by name."""

from pipeline.experiment import Experiment
from pipeline.tasks.answering import AnsweringTask
from pipeline.tasks.captioning import CaptioningTask
from pipeline.tasks.classification import ClassificationTask
from pipeline.tasks.contract import Task
from pipeline.tasks.frame_tagging import FrameTaggingTask
from pipeline.tasks.language_model import LanguageModelTask
from pipeline.tasks.lip_reading import LipReadingTask
from pipeline.tasks.tagging import TaggingTask
from pipeline.tasks.translation import TranslationTask
from pipeline.tasks.visual_answering import VisualAnsweringTask
from pipeline.vocabularies import load_vocabularies
from pipeline.workspace import Workspace

TASKS: dict[str, type[Task]] = {
    "translation": TranslationTask,
    "language_model": LanguageModelTask,
    "classification": ClassificationTask,
    "tagging": TaggingTask,
    "answering": AnsweringTask,
    "captioning": CaptioningTask,
    "visual_answering": VisualAnsweringTask,
    "lip_reading": LipReadingTask,
    "frame_tagging": FrameTaggingTask,
}


def make_task(experiment: Experiment, workspace: Workspace) -> Task:
    """The task of an experiment, with the vocabularies that `prepare` published.

    Raises:
        UserError: If there are none.
    """
    return TASKS[experiment.model.task](experiment, load_vocabularies(experiment, workspace))
