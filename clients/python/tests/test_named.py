"""Features by name."""

from __future__ import annotations

import math
from pathlib import Path

import helba
import numpy as np
import pytest
from conftest import ARMS, FEATURES, run

SCHEMA = {"layout": "dsjson", "context": {"hot": "auto"}, "candidate": {"price": "min-max", "quality": "max"}}
BY_NAME = {"layout": "dsjson", "candidate": {"price": "min-max", "quality": "max"}}
TOML = """layout = "dsjson"
[candidate]
price = "min-max"
quality = "max"
"""
EXAMPLES = [
    {"candidates": [{"price": 2, "quality": 1}, {"price": 10, "quality": -4}]},
    {"candidates": [{"price": 6, "quality": 3}, {"price": 7, "quality": 0}]},
]


def test_named_values_are_features(tmp_path: Path) -> None:
    """A transformation that was saved makes the same rows, of plain numbers and of numpy's."""
    schema = tmp_path / "schema.toml"
    schema.write_text(TOML)
    learnt = helba.Transform.learn(schema, EXAMPLES)
    as_dictionary = {"layout": "dsjson", "candidate": {"price": "min-max", "quality": "max"}}
    candidates = [{"price": 4, "quality": 2}, {"price": np.float32(10), "quality": np.int64(-4)}]
    rows = learnt.rows(candidates)
    # min-max of 2 to 10, and max of 4; then both by the longest row of the examples.
    longest = max(math.hypot((c["price"] - 2) / 8, c["quality"] / 4) for r in EXAMPLES for c in r["candidates"])
    want = [[0.25 / longest, 0.5 / longest], [1 / longest, -1 / longest]]
    assert np.allclose(rows, want), (rows, want)
    assert (learnt.names, learnt.features, learnt.arms) == (["price", "quality"], 2, 2)
    learnt.save(tmp_path / "transform.json")
    for other in (helba.Transform.open(tmp_path / "transform.json"), helba.Transform.learn(as_dictionary, EXAMPLES)):
        assert other.rows(candidates) == rows


def test_score_features_are_learnt_from_rewards(tmp_path: Path) -> None:
    """An arm pays if the sign of x is its own: the score says so, for values that the file does not have."""
    rows = [(x / 10, arm, int((x > 0) == (arm == "up"))) for x in range(-30, 31) if x for arm in ("up", "down")]
    log = tmp_path / "log.csv"
    log.write_text("x,arm,reward\n" + "".join(f"{x},{arm},{reward}\n" for x, arm, reward in rows))
    schema = {
        "layout": "wide",
        "candidates": ["up", "down"],
        "chosen": "arm",
        "reward": "reward",
        "score": {},
        "context": {"x": "max"},
    }
    learnt = helba.Transform.fit(log, schema)
    assert learnt.names == ["score", "candidate=up", "candidate=down"]
    for x in (-0.55, 0.55):
        up, down = learnt.rows([{}, {}], {"x": x})
        assert (up[0] > down[0]) == (x > 0) and up[1] == down[2] == pytest.approx(math.sqrt(0.5))
    learnt.save(tmp_path / "transform.json")
    assert helba.Transform.open(tmp_path / "transform.json").rows([{}, {}], {"x": 1}) == learnt.rows([{}, {}], {"x": 1})
    with pytest.raises(helba.Error, match="learnt from rewards"):
        helba.Transform.learn(schema, EXAMPLES)


def test_rewards_are_mapped_by_the_range_of_the_schema(tmp_path: Path) -> None:
    """As the file's are, of plain numbers and of numpy's, and as what was saved maps them."""
    euros = helba.Transform.learn({**BY_NAME, "reward_range": [0, 50]}, EXAMPLES)
    euros.save(tmp_path / "transform.json")
    for transform in (euros, helba.Transform.open(tmp_path / "transform.json")):
        assert [transform.reward(value) for value in (0, 12.5, np.float32(12.5), np.int64(50))] == [0, 0.25, 0.25, 1]
    assert helba.Transform.learn({**BY_NAME, "reward_range": [0, -1]}, EXAMPLES).reward(-0.25) == 0.25
    without = helba.Transform.learn(BY_NAME, EXAMPLES)
    assert [without.reward(value) for value in (0, 0.3, True)] == [0, 0.3, 1]
    for value in (50.5, -0.5, 1e308):
        with pytest.raises(helba.ArgumentError, match="is outside reward_range = ") as refused:
            euros.reward(value)
        assert "[0, 50]" in str(refused.value) and (value > 1e300 or f"the reward {value} " in str(refused.value))
    with pytest.raises(helba.ArgumentError, match="the reward 20 is outside 0 to 1, and the schema has no reward_range"):
        without.reward(20)
    for value in ("12.5", None, math.nan, math.inf, [12.5]):
        with pytest.raises(helba.ArgumentError, match="the reward is"):
            euros.reward(value)  # type: ignore[arg-type]


def test_bandits_decide_on_named_values(client: helba.Client, tmp_path: Path) -> None:
    names = [f"value{i}" for i in range(FEATURES)]
    schema = {"layout": "dsjson", "candidate": {name: "max" for name in names}}
    examples = [{"candidates": [{name: 1 + arm + i for i, name in enumerate(names)} for arm in range(ARMS)]}]
    transform = helba.Transform.learn(schema, examples)
    bandit = client.create(features=transform.features, arms=transform.arms)
    decision = bandit.decide(transform.rows(examples[0]["candidates"]))
    assert bandit.feedback(decision, 1).feedbacks == 1


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        ([{"price": 1}], "candidates"),
        ([{"price": 1, "quality": 1}, {"price": "dear", "quality": 1}], "price"),
        ([{"price": 1, "quality": 1}, {"prize": 1, "quality": 1}], "pri"),
        ([{"price": math.nan, "quality": 1}] * 2, "finite"),
        ([{"price": [1], "quality": 1}] * 2, "price"),
        ([{"price": object(), "quality": 1}] * 2, "object"),
    ],
)
def test_bad_values_are_named(candidates: object, said: str) -> None:
    transform = helba.Transform.learn(
        {"layout": "dsjson", "candidate": {"price": "min-max", "quality": "max"}}, EXAMPLES
    )
    with pytest.raises(helba.ContextsError, match=said):
        transform.rows(candidates)  # type: ignore[arg-type]


def test_bad_schemas_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "schema.toml"
    file.write_text("layout = 1\n")
    for schema in ({"candidate": {"price": "dear"}}, file):
        with pytest.raises(helba.ArgumentError):
            helba.Transform.learn(schema, EXAMPLES)


def test_rounds_of_a_converted_file(tmp_path: Path) -> None:
    """What `data convert` writes of a wide table, against the table."""
    table, schema = tmp_path / "visits.csv", tmp_path / "visits.toml"
    table.write_text("size.b,size.a,done\n2,4,a\n1,0,b\n4,3,b\n")
    schema.write_text('layout = "wide"\ncandidates = ["b", "a"]\nchosen = "done"\n[candidate]\nsize = "max"\n')
    output = tmp_path / "rounds.csv"
    run("helba-client", "data", "convert", table, "--schema", schema, "--output", output)
    rounds = helba.Rounds.open(output)
    assert (rounds.arms, len(rounds), len(rounds.features)) == (["b", "a"], 3, 1), rounds
    assert rounds.rewards == [[0, 1], [1, 0], [1, 0]]
    assert np.allclose(rounds.contexts, [[[0.5], [1]], [[0.25], [0]], [[1], [0.75]]]), rounds.contexts


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no columns of rounds"),
        ("user,item\n1,2\n", "no columns of rounds"),
        ("round,x1.a,x1.b,action,reward\n1,0,0,a,1\n", "data evaluate"),
        ("round,x1.a,reward.a,reward.b\n", "no column x1.b"),
        ("round,x1.a,x1.b,reward.a,reward.b\n1,0,0,1,0\n2,0,?,1,0\n", "line 3"),
        ("round,x1.a,x1.b,reward.a,reward.b\n1,0,0,1\n", "line 2"),
    ],
)
def test_files_that_are_no_rounds(text: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "rounds.csv").write_text(text)
    with pytest.raises(helba.ContextsError, match=named):
        helba.Rounds.open(tmp_path / "rounds.csv")
