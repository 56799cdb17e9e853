"""Questions that one worker answers, or many together."""

import json
import subprocess
import sys

import pytest
import rich.console
from command import ROOT, environment

from pipeline.evaluate import evaluate
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.questions import Questions, answer_together
from pipeline.train.replicas import Cluster, Replicas, make_strategy
from tests.pipeline.train.test_workers import finish, free_ports

ITEMS = ["ccc", "a", "bb", "dddd", "é\n☃"]
DEADLINE = 300  # seconds


def ask(count, asked):
    """Questions about the first items, in batches of two, of which note is taken."""

    def answer(batch):
        asked.append(batch)
        return [item.upper() for item in batch]

    items = ITEMS[:count]
    return Questions.of_like_length(items, [len(item) for item in items], 2, answer)


def test_the_shortest_are_answered_first_and_told_in_the_order_of_the_questions():
    asked, done = [], []
    found = ask(5, asked).answers(done.append)
    assert [found[place] for place in range(5)] == ["CCC", "A", "BB", "DDDD", "É\n☃"]
    assert asked == [["a", "bb"], ["ccc", "é\n☃"], ["dddd"]] and done == [2, 2, 1]
    with pytest.raises(ValueError):
        Questions.of_like_length(ITEMS, [1] * 5, 5, lambda batch: []).answers(done.append)


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_shares_are_whole_batches_and_each_is_somebodys(workers):
    asked = []
    shares = [ask(5, asked).share(worker, workers) for worker in range(workers)]
    found = {}
    for share in shares:
        before = len(found)
        found.update(share.answers(lambda count: None))
        assert len(found) - before == share.count
    assert sorted(asked) == [["a", "bb"], ["ccc", "é\n☃"], ["dddd"]]
    assert found == ask(5, []).answers(lambda count: None)


def test_two_workers_answer_what_one_does(trained):
    """Uneven shares, less than a question a worker, and the scores of a test split."""
    experiment = load_experiment(trained, ["search.batch_size=5"])
    workspace = workspace_of(experiment)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    code = f"from tests.pipeline import test_questions; test_questions.main({str(trained)!r})"
    workers = []
    for index in range(2):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        changes = {"TF_CONFIG": json.dumps(task), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
        workers.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=ROOT,
                env=environment(**changes),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    statuses, outputs, errors = finish(workers)
    assert statuses == [0, 0], errors
    told = [[json.loads(line) for line in output.splitlines()] for output in outputs]
    for count, chiefs, others in zip((0, 1, 5), *told, strict=True):
        expected = [item.upper() for item in ITEMS[:count]]
        assert chiefs["found"] == others["found"] == expected
    assert [each["asked"] for each in told[0]] == [[], [["ccc"]], [["a", "bb"], ["dddd"]]]
    assert [each["asked"] for each in told[1]] == [[], [], [["ccc", "é\n☃"]]]
    together = json.loads((workspace.scores / "test.json").read_text())
    texts = (workspace.scores / "test.hypothesis.txt").read_text()
    alone = evaluate(experiment, workspace, rich.console.Console(quiet=True))
    assert (workspace.scores / "test.hypothesis.txt").read_text() == texts
    assert len({*texts.splitlines()}) > 3
    for sums in ("loss", "perplexity", "accuracy"):
        assert together.pop(sums) == pytest.approx(alone.pop(sums), rel=1e-5)
    assert together == json.loads(json.dumps(alone))


def main(path):
    """A worker: what it is asked, what all have found, as lines of JSON; then a test split."""
    cluster = Cluster.of_environment()
    with make_strategy(cluster).scope() as strategy:
        replicas = Replicas(strategy, cluster)
        for count in (0, 1, 5):
            asked = []
            found = answer_together(ask(count, asked), replicas)
            print(json.dumps({"asked": asked, "found": found}))
        experiment = load_experiment(path, ["search.batch_size=5"])
        evaluate(experiment, workspace_of(experiment), rich.console.Console(file=sys.stderr))
