"""Features by name."""

from __future__ import annotations

import math
from pathlib import Path

import helba
import numpy as np
import pytest
from conftest import ARMS, FEATURES

SCHEMA = {"layout": "dsjson", "context": {"hot": "auto"}, "candidate": {"price": "min-max", "quality": "max"}}
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
    transform = helba.Transform.learn({"layout": "dsjson", "candidate": {"price": "min-max", "quality": "max"}}, EXAMPLES)
    with pytest.raises(helba.ContextsError, match=said):
        transform.rows(candidates)  # type: ignore[arg-type]


def test_bad_schemas_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "schema.toml"
    file.write_text("layout = 1\n")
    for schema in ({"candidate": {"price": "dear"}}, file):
        with pytest.raises(helba.ArgumentError):
            helba.Transform.learn(schema, EXAMPLES)
