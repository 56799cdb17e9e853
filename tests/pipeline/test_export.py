"""The export stage: what a version holds, and that its signatures answer as the model does."""

import io
import json
import shutil

import numpy as np
import pytest
import rich.console
import tensorflow as tf
import tensorflow_text  # noqa: F401
from hostile_strings import hostile_strings

from models.errors import UserError
from models.tokenizers import with_begin, with_end
from pipeline.assembly import search_options
from pipeline.experiment.stages import GraphBatchingSection
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.export import export, is_exported
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import restore_best
from serving.saved_model_graph import SavedModelGraph
from serving.warmup import read_warmup

TEXTS = ["sun moon", "rain rain snow fog", "", "wind", "unknown words 中文", "sky " * 50]


@pytest.fixture(scope="module")
def exported(trained_folder, tmp_path_factory):
    """(experiment, workspace, version folder, restored model, vocabularies)."""
    folder = tmp_path_factory.mktemp("exported")
    shutil.copytree(trained_folder, folder, dirs_exist_ok=True)
    path = folder / "tiny.yaml"
    path.write_text(path.read_text().replace(f"{trained_folder}/run", f"{folder}/run"))
    experiment = load_experiment(path)
    workspace = workspace_of(experiment)
    version = export(experiment, workspace, rich.console.Console(file=io.StringIO()))
    task = make_task(experiment, workspace)
    model = task.build_model()
    restore_best(workspace, model)
    return experiment, workspace, version, model, task.vocabularies


@pytest.fixture(scope="module")
def signatures(exported):
    return tf.saved_model.load(str(exported[2])).signatures


def test_version_is_published_whole(exported):
    experiment, workspace, version, *_ = exported
    assert version == workspace.export / "translation" / "1"
    assert [path.name for path in version.parent.iterdir()] == ["1"]
    origin = json.loads((version / "assets.extra/seqloom.json").read_text())
    assert origin["experiment"] == "tiny"
    assert is_exported(experiment, workspace)
    assert len(read_warmup(version)) == 2 * 6


def test_default_signature_answers_as_the_model(exported, signatures):
    experiment, _, _, model, vocabularies = exported
    source = with_end(vocabularies.source.encode(tf.constant(TEXTS))).to_tensor()
    found = model.translate(source, search_options(experiment))
    answer = signatures["serving_default"](text=tf.constant(TEXTS))
    texts = vocabularies.target.decode(found.ids[:, 0, :]).numpy().tolist()
    assert answer["translation"].numpy().tolist() == texts
    np.testing.assert_allclose(answer["score"], found.scores[:, 0], rtol=1e-5)
    assert texts[2] == b""


def test_nbest_is_sorted_and_starts_with_the_best(signatures):
    best = signatures["serving_default"](text=tf.constant(TEXTS))
    nbest = signatures["nbest"](text=tf.constant(TEXTS))
    assert nbest["translations"].shape == (len(TEXTS), 3)
    scores = nbest["scores"].numpy()
    # Of an empty sentence there is only one translation, the empty one.
    assert scores[2, 1:].tolist() == [-np.inf, -np.inf]
    scores = np.delete(scores, 2, 0)
    assert (np.diff(scores, axis=1) <= 0).all()
    np.testing.assert_allclose(nbest["scores"][:, 0], best["score"], rtol=1e-5)
    assert nbest["translations"][:, 0].numpy().tolist() == best["translation"].numpy().tolist()


def test_align_gives_a_distribution_for_each_piece(signatures):
    answer = signatures["align"](text=tf.constant(TEXTS))
    weights = answer["alignment"].numpy()
    target = answer["target_tokens"].numpy() != b""
    source = answer["source_tokens"].numpy() != b""
    assert weights.shape == (len(TEXTS), target.shape[1], source.shape[1])
    np.testing.assert_allclose(weights.sum(-1), target.astype(np.float32), atol=1e-5)
    assert (weights[~np.broadcast_to(source[:, np.newaxis, :], weights.shape)] == 0).all()


def test_score_of_the_found_translation_is_its_search_score(exported, signatures):
    experiment, *_ = exported
    texts = TEXTS[:2] + TEXTS[3:4]
    best = signatures["serving_default"](text=tf.constant(texts))
    scored = signatures["score"](source=tf.constant(texts), target=best["translation"])
    penalty = ((5.0 + scored["tokens"].numpy()) / 6.0) ** experiment.search.length_penalty
    np.testing.assert_allclose(
        scored["log_probability"].numpy() / penalty, best["score"], rtol=1e-4
    )


def test_score_is_the_sum_of_the_models_log_probabilities(exported, signatures):
    *_, model, vocabularies = exported
    ids = vocabularies.target.encode(tf.constant(["moon sun"]))
    source = with_end(vocabularies.source.encode(tf.constant(["sun"]))).to_tensor()
    forced = model.force(source, with_begin(ids).to_tensor(), with_end(ids).to_tensor())
    answer = signatures["score"](source=tf.constant(["sun"]), target=tf.constant(["moon sun"]))
    assert float(answer["log_probability"][0]) == pytest.approx(
        float(tf.reduce_sum(forced.log_probabilities)), rel=1e-5
    )
    assert int(answer["tokens"][0]) == ids.row_lengths()[0] + 1


def test_samples_are_drawn_by_seed_and_temperature(exported, signatures):
    *_, model, vocabularies = exported
    texts, sample = tf.constant(TEXTS), signatures["sample"]
    source = with_end(vocabularies.source.encode(texts)).to_tensor()
    greedy = model.translate(source, search_options(exported[0], kind="greedy"))
    seeds = tf.range(len(TEXTS))
    cold = sample(text=texts, seed=seeds, temperature=tf.zeros([len(TEXTS)]))
    expected = vocabularies.target.decode(greedy.ids[:, 0, :]).numpy().tolist()
    assert cold["translation"].numpy().tolist() == expected
    np.testing.assert_allclose(cold["score"], greedy.scores[:, 0], rtol=1e-4)
    warm = tf.fill([len(TEXTS)], 1.5)
    first = sample(text=texts, seed=seeds, temperature=warm)["translation"].numpy().tolist()
    assert first == sample(text=texts, seed=seeds, temperature=warm)["translation"].numpy().tolist()
    assert (
        first
        != sample(text=texts, seed=seeds + 9, temperature=warm)["translation"].numpy().tolist()
    )
    alone = sample(text=texts[1:2], seed=seeds[1:2], temperature=warm[1:2])
    assert alone["translation"].numpy().tolist() == first[1:2]


def test_empty_batch(signatures):
    answer = signatures["serving_default"](text=tf.constant([], tf.string))
    assert answer["translation"].shape == (0,)
    assert signatures["nbest"](text=tf.constant([], tf.string))["scores"].shape == (0, 3)


def test_long_sentences_are_cut(signatures):
    long = signatures["serving_default"](text=tf.constant(["sun " * 500]))
    cut = signatures["serving_default"](text=tf.constant(["sun " * 200]))
    assert long["translation"].numpy() == cut["translation"].numpy()


def test_invalid_utf8_is_answered_with_valid_utf8(signatures):
    answer = signatures["serving_default"](text=tf.constant([b"sun \xff\xfe moon", b"\xc3"]))
    for text in answer["translation"].numpy():
        text.decode("utf-8")


def test_ids_are_equal_in_the_beam_stage_the_dataset_and_the_graph(exported):
    from pipeline.prepare.tokenizers import SentencePieceTokenizer

    _, workspace, _, _, vocabularies = exported
    texts = hostile_strings(1000)
    here = SentencePieceTokenizer(workspace.vocabulary("source").read_bytes())
    graph = vocabularies.source.encode(tf.constant([text.encode() for text in texts])).to_list()
    assert graph == [list(ids) for ids in here.encode(texts)]


def test_linter_findings_stop_the_export(exported, monkeypatch, console):
    experiment, workspace, *_ = exported

    def refuse(folder):
        raise UserError("found")

    monkeypatch.setattr("serving.linter.check", refuse)
    with pytest.raises(UserError, match="found"):
        export(experiment, workspace, console)
    assert [path.name for path in (workspace.export / "translation").iterdir()] == ["1"]


def test_batches_inside_the_graph_answer_as_the_model_alone(exported, signatures):
    experiment, workspace, *_ = exported
    section = GraphBatchingSection(max_batch_size=4, batch_timeout_micros=0)
    together = experiment.model_copy(
        update={"export": experiment.export.model_copy(update={"batching": section})}
    )
    version = export(together, workspace, rich.console.Console(file=io.StringIO()))
    functions = SavedModelGraph.read(version).meta_graph.graph_def.library.function
    nodes = [node for each in functions for node in each.node_def if node.op == "BatchFunction"]
    queues = {node.attr["shared_name"].s for node in nodes}
    assert len(queues) == len(nodes) == len(signatures)
    loaded = tf.saved_model.load(str(version)).signatures
    # More texts than a batch holds, and each as long as it likes.
    for name in ("serving_default", "nbest"):
        answer = loaded[name](text=tf.constant(TEXTS))
        for alias, expected in signatures[name](text=tf.constant(TEXTS)).items():
            if expected.dtype == tf.string:
                assert answer[alias].numpy().tolist() == expected.numpy().tolist()
            else:
                np.testing.assert_allclose(answer[alias], expected, rtol=1e-4)
