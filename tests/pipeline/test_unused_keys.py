"""Keys that nothing reads are refused, with their line, the reason and what to do."""

import typing

import pytest

from models.errors import UserError
from pipeline.experiment import Experiment
from pipeline.experiment.unused import USES
from pipeline.experiment_file import dump_experiment, load_experiment

# Each task with keys that it does not read, and what they are told to be of.
OF_OTHER_TASKS = [
    ("translation", "model.tagging.characters=none", "'tagging'"),
    ("translation", "model.classification.pooling=mean", "'classification'"),
    ("translation", "model.answering.hops=2", "'answering'"),
    ("translation", "model.language_model.tie_embeddings=true", "'language_model'"),
    ("translation", "export.max_tokens=7", "'language_model'"),
    ("language_model", "model.encoder.layers=2", "'translation' or"),
    ("language_model", "model.encoder.self_attention.layers=2", "'translation' or"),
    ("language_model", "model.attention.kind=hard", "'translation' or 'answering'"),
    ("language_model", "model.decoder.input_feeding=true", "'translation'"),
    ("language_model", "model.decoder.bridge=copy", "'translation'"),
    ("language_model", "search.beam_size=2", "'translation'"),
    ("language_model", "search.min_length=2", "'translation'"),
    ("language_model", "search.ensemble=[runs/other]", "'translation'"),
    ("language_model", "vocabulary.source_size=99", "not read"),
    ("classification", "model.decoder.units=8", "'translation' or 'language_model'"),
    ("classification", "model.attention.score=dot", "'translation' or 'answering'"),
    ("classification", "search.kind=greedy", "'translation' or 'language_model'"),
    ("classification", "vocabulary.target_size=99", "'translation' or 'language_model'"),
    ("tagging", "export.nbest=2", "'translation'"),
    ("tagging", "vocabulary.normalization=identity", "not read"),
    ("tagging", "vocabulary.algorithm=bpe", "not read"),
    ("language_model", "data.cleaning.drop_identical=true", "not read"),
    ("captioning", "data.cleaning.drop_identical=true", "not read"),
    ("captioning", "model.visual_answering.hops=2", "'visual_answering'"),
    ("answering", "model.decoder.layers=2", "'translation' or 'language_model'"),
    ("answering", "data.cleaning.max_length_ratio=2", "'translation'"),
]

# A key and the choice that leaves it unread; another choice that reads it.
OF_OTHER_KINDS = [
    ("model.attention.heads=4", "model.attention.score=dot", "model.attention.score=multi_head"),
    ("model.attention.units=4", "model.attention.score=general", "model.attention.score=concat"),
    (
        "model.attention.window=4",
        "model.attention.kind=soft",
        "model.attention.kind=local_monotonic",
    ),
    (
        "model.attention.baseline_decay=0.5",
        "model.attention.kind=soft",
        "model.attention.kind=hard",
    ),
    (
        "model.encoder.self_attention.heads=4",
        "model.encoder.self_attention.layers=0",
        "model.encoder.self_attention.layers=1",
    ),
    ("model.decoder.input_feeding=true", "model.decoder.kind=bahdanau", "model.decoder.kind=luong"),
    ("vocabulary.byte_fallback=true", "vocabulary.algorithm=word", "vocabulary.algorithm=bpe"),
    ("vocabulary.target_size=99", "vocabulary.shared=true", "vocabulary.shared=false"),
    ("search.beam_size=2", "search.kind=greedy", "search.kind=beam"),
    ("search.beam_size=2", "search.kind=sampling", "search.kind=beam"),
    ("search.temperature=0.5", "search.kind=beam", "search.kind=sampling"),
    ("search.seed=5", "search.kind=greedy", "search.kind=sampling"),
    (
        "train.schedule.decay_steps=5",
        "train.schedule.decay=constant",
        "train.schedule.decay=cosine",
    ),
    (
        "train.schedule.decay_rate=0.9",
        "train.schedule.decay=cosine",
        "train.schedule.decay=exponential",
    ),
    ("train.clip.threshold=1.0", "train.clip.kind=none", "train.clip.kind=norm"),
    ("train.loss.label_smoothing=0.1", "train.loss.kind=nce", "train.loss.kind=full"),
    ("train.loss.noise_words=5", "train.loss.kind=full", "train.loss.kind=sampled"),
    (
        "train.scheduled_sampling.minimum=0.5",
        "train.scheduled_sampling.decay=none",
        "train.scheduled_sampling.decay=linear",
    ),
    (
        "train.scheduled_sampling.decay_rate=0.7",
        "train.scheduled_sampling.decay=linear",
        "train.scheduled_sampling.decay=exponential",
    ),
    ("train.curriculum.epochs=2", "train.curriculum.growth=none", "train.curriculum.growth=root"),
    ("train.self_paced.growth=2.0", "train.self_paced.kind=none", "train.self_paced.kind=soft"),
    (
        "train.gradient_flow.longest=9",
        "train.gradient_flow.sentences=0",
        "train.gradient_flow.sentences=2",
    ),
    ("data.hold_out.side=target", "data.hold_out.valid=0.0", "data.hold_out.valid=0.1"),
    ("data.hold_out.side=target", "data.hold_out.test=0.0", "data.hold_out.test=0.1"),
    ("cluster.workers=2", "cluster.runner=FlinkRunner", "cluster.runner=DirectRunner"),
    (
        "cluster.running_mode=in_memory",
        "cluster.runner=SparkRunner",
        "cluster.runner=FnApiRunner",
    ),
    (
        "cluster.workers=2",
        "cluster.running_mode=in_memory",
        "cluster.running_mode=multi_threading",
    ),
]

OF_OTHER_KINDS_IN_TASKS = [
    (
        "classification",
        "model.classification.attention_units=4",
        "model.classification.pooling=max",
    ),
    ("tagging", "model.tagging.character_window=5", "model.tagging.characters=rnn"),
    ("tagging", "model.tagging.longest_spelling=5", "model.tagging.characters=none"),
    (
        "language_model",
        "model.language_model.window=3",
        "model.language_model.architecture=recurrent",
    ),
    ("language_model", "model.cell=gru", "model.language_model.architecture=window"),
    ("language_model", "search.top_k=3", "search.kind=greedy"),
    (
        "language_model",
        "train.truncated_bptt.restarts=0.5",
        "train.truncated_bptt.segment_length=null",
    ),
]


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text("name: small\ndata: {train: [{format: tsv, path: pairs.tsv}]}\n")
    return path


def assert_refused(path, overrides, key):
    with pytest.raises(UserError) as raised:
        load_experiment(path, overrides)
    lines = [line for line in str(raised.value).splitlines() if f"'{key}' is" in line]
    assert len(lines) == 1 and "remove the key, or change" in lines[0]
    return lines[0]


@pytest.mark.parametrize(("task", "setting", "told"), OF_OTHER_TASKS)
def test_a_key_of_another_task_is_refused(small, task, setting, told):
    message = assert_refused(small, [f"model.task={task}", setting], setting.split("=")[0])
    assert f"model.task is '{task}'" in message and told in message


@pytest.mark.parametrize(("setting", "other", "own"), OF_OTHER_KINDS)
def test_a_key_of_another_kind_is_refused_and_taken_by_its_own(small, setting, other, own):
    message = assert_refused(small, [setting, other], setting.split("=")[0])
    assert other.split("=")[0] in message
    load_experiment(small, [setting, own])


@pytest.mark.parametrize(("task", "setting", "other"), OF_OTHER_KINDS_IN_TASKS)
def test_so_are_those_of_other_tasks(small, task, setting, other):
    message = assert_refused(small, [f"model.task={task}", setting, other], setting.split("=")[0])
    assert other.split("=")[0] in message


def test_each_is_told_with_its_own_line(small):
    lines = [
        "model:",
        "  attention:",
        "    window: 4",
        "    heads: 2",
        "search: {temperature: 0.5}",
    ]
    small.write_text(small.read_text() + "\n".join(lines))
    with pytest.raises(UserError) as raised:
        load_experiment(small)
    told = sorted(str(raised.value).splitlines())
    places = [(5, "model.attention.window"), (6, "model.attention.heads"), (7, "search.temp")]
    assert len(told) == 3
    for message, (line, key) in zip(told, places, strict=True):
        assert message.startswith(f"{small}, line {line}: '{key}")


def test_a_wrong_combination_is_told_with_the_line_of_a_key_it_names(small):
    small.write_text(small.read_text() + "model:\n  task: tagging\nvocabulary:\n  shared: true\n")
    with pytest.raises(UserError, match=r"small\.yaml, line 6: vocabulary\.shared is for transl"):
        load_experiment(small)


def test_a_side_goes_unread_where_lines_are_held_out_by_runs(small):
    text = "data={train: [{format: text, path: a}], hold_out: {valid: 0.1, side: target}, order: "
    rest = "cleaning: {drop_duplicates: false}}"
    message = assert_refused(
        small, ["model.task=language_model", f"{text} corpus, {rest}"], "data.hold_out.side"
    )
    assert "data.order is 'corpus'" in message
    load_experiment(small, ["model.task=language_model", f"{text} shuffled, {rest}"])


@pytest.mark.parametrize(
    "settings",
    [
        ["model.task=tagging", "vocabulary.algorithm=word"],
        ["cluster.running_mode=in_memory", "cluster.workers=1"],
    ],
)
def test_a_value_that_says_what_is_done_anyway_is_taken(small, settings):
    load_experiment(small, settings)


@pytest.mark.parametrize("task", ["translation", "language_model", "tagging"])
def test_an_experiment_with_every_key_is_read_again(small, task, tmp_path):
    experiment = load_experiment(small, [f"model.task={task}"])
    complete = tmp_path / "complete.yaml"
    complete.write_text(dump_experiment(experiment))
    assert load_experiment(complete) == experiment


def test_the_rules_name_keys_and_values_that_there_are():
    tiny = Experiment.model_validate(
        {"name": "tiny", "data": {"train": [{"format": "tsv", "path": "a"}]}}
    )
    for use in USES:
        for key in (*use.keys, *use.decided_by):
            section = tiny
            for name in key.split(".")[:-1]:
                section = getattr(section, name)
            assert key.split(".")[-1] in type(section).model_fields
            field = type(section).model_fields[key.split(".")[-1]]
        named = [value for value in (*use.only, *use.never) if isinstance(value, str)]
        assert field.annotation is str or set(named) <= set(typing.get_args(field.annotation))
