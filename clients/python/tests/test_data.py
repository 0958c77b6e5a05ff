"""Files and data frames: checks and evaluations without a server, against the program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import helba
import numpy as np
import pytest
from conftest import PROGRAMS, ROOT, run

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

CARS = ROOT / "data" / "foreign" / "cars.csv"
CARS_SCHEMA = ROOT / "data" / "foreign" / "cars.toml"
LOGGED = ROOT / "data" / "foreign" / "logged.json"
LOGGED_SCHEMA = ROOT / "data" / "foreign" / "logged.toml"
READERS = {"pandas": lambda path: pandas.read_csv(path), "polars": lambda path: polars.read_csv(path)}
WIDE = {"layout": "wide", "candidates": ["a", "b"], "chosen": "done", "candidate": {"size": "max"}}


def printed(*arguments: object) -> Any:
    return json.loads(run("helba-client", "--json", "data", *arguments))


def test_a_path_gives_what_the_program_prints() -> None:
    proposed = helba.check(CARS)
    assert proposed == printed("check", CARS)
    assert proposed["toml"] in proposed.text and str(proposed) == repr(proposed) == proposed.text
    checked = helba.check(str(CARS), CARS_SCHEMA)
    assert checked == printed("check", CARS, "--schema", CARS_SCHEMA)
    assert checked.text == run("helba-client", "data", "check", CARS, "--schema", CARS_SCHEMA).rstrip("\n")
    options = {"policies": ["helba", "oful"], "seeds": 2, "rounds": 100}
    found = helba.evaluate(CARS, CARS_SCHEMA, **options)
    same = ("--policies", "helba,oful", "--seeds", 2, "--rounds", 100)
    assert found == printed("evaluate", CARS, "--schema", CARS_SCHEMA, *same)
    assert "Rule: " in found.text and found["recommendation"]["paragraph"] in found.text
    assert helba.evaluate(LOGGED, LOGGED_SCHEMA, policies=["helba"])["measure"] == "doubly_robust"


def test_a_rule_a_grid_and_the_decisions_are_those_of_the_program(tmp_path: Path) -> None:
    log, schema, picked, printed_picks = (tmp_path / name for name in ("log.csv", "log.toml", "picked.csv", "printed.csv"))
    schema.write_text(run("helba-client", "data", "generate", log, "--truth", tmp_path / "truth.csv", "--rounds", 300))
    options: dict[str, Any] = {"policies": ["helba", "ucb1"], "seeds": 2, "policy_column": "rule", "grid": {"alpha": [0.25, 1]}}
    found = helba.evaluate(log, schema, decisions=picked, **options)
    same = ("--policies", "helba,ucb1", "--seeds", 2, "--policy-column", "rule", "--grid", "alpha=0.25,1")
    assert found == printed("evaluate", log, "--schema", schema, *same, "--decisions", printed_picks)
    assert picked.read_text() == printed_picks.read_text()
    names = [entry["name"] for entry in found["entries"]]
    assert "column rule" in names and "helba alpha=0.25" in names and "helba alpha=1" in names
    assert len(picked.read_text().splitlines()) == 1 + 3 * 2 * 300
    # The same of a data frame, whose file is not the one that is written.
    frame_picks = str(tmp_path / "frame.csv")
    assert helba.evaluate(pandas.read_csv(log), schema, decisions=frame_picks, **options) == found
    assert Path(frame_picks).read_text() == picked.read_text()


@pytest.mark.parametrize("library", READERS)
def test_a_data_frame_gives_what_its_file_gives(library: str) -> None:
    frame = READERS[library](CARS)
    assert helba.check(frame, CARS_SCHEMA) == helba.check(CARS, CARS_SCHEMA)
    proposed, of_file = helba.check(frame), helba.check(CARS)
    assert proposed["schema"] == of_file["schema"] and proposed["checked"] == of_file["checked"]
    assert "Schema of the data frame" in proposed["toml"]
    options = {"policies": ["helba"], "seeds": 2, "rounds": 60}
    assert helba.evaluate(frame, proposed, **options) == helba.evaluate(CARS, of_file["schema"], **options)


def test_a_lazy_frame_is_collected() -> None:
    assert helba.check(polars.scan_csv(CARS), CARS_SCHEMA) == helba.check(CARS, CARS_SCHEMA)


def frames(columns: dict[str, list[Any]]) -> list[Any]:
    return [pandas.DataFrame(columns), polars.DataFrame(columns, strict=False)]


@pytest.mark.parametrize("at", [0, 1])
def test_cells_pass_as_they_are_written(at: int) -> None:
    """Ids above 2^53, quotes, delimiters and line ends in texts, gaps, truth values."""
    ids = [9007199254740993, 9007199254740992, 9007199254740995, 9007199254740993]
    texts = ['a "quoted" one', "semi;colon, comma|bar", "two\nlines", "tab\tand ünïcode"]
    columns = {
        "who;id": ids, "note, free": texts, "flag": [True, False, True, True], "size.a": [0.1, 1e-9, 2.5, 3.0],
        "size.b": [1, 2, None, 4], "done": ["a", "b", "b", "a"],
    }
    frame = frames(columns)[at]
    from helba._frames import file_of

    with file_of(frame) as (path, shown):
        assert shown == "the data frame" and path.parent.stat().st_mode & 0o077 == 0
        written = pandas.read_csv(path, dtype=str, keep_default_na=False)
    assert not path.exists()
    assert written["who;id"].tolist() == [str(one) for one in ids]
    assert written["note, free"].tolist() == texts
    assert [float(one) for one in written["size.a"]] == columns["size.a"]
    assert [one and float(one) for one in written["size.b"]] == [1, 2, "", 4]
    checked = helba.check(frame, {**WIDE, "user": "who;id", "candidate": {"size": "none"}})
    assert checked["rounds"] == 3 and checked["dropped"][0]["rounds"] == 1


@pytest.mark.parametrize("at", [0, 1])
def test_single_precision_keeps_its_digits(at: int) -> None:
    value = np.float32(0.1)
    frame = frames({"size.a": np.array([value, 1], dtype="float32"), "size.b": np.array([1, value], dtype="float32"), "done": ["a", "b"]})[at]
    from helba._frames import file_of

    with file_of(frame) as (path, _):
        assert pandas.read_csv(path, dtype=str)["size.a"].tolist()[0] == "0.1"


@pytest.mark.parametrize("at", [0, 1])
def test_one_column_and_empty_rows(at: int) -> None:
    """A row without a value is a row, not an empty line."""
    from helba._frames import file_of

    with file_of(frames({"only": ["x", None, "", "y"]})[at]) as (path, _):
        assert len(path.read_text().splitlines()) == 5


def test_an_index_with_a_name_is_a_column() -> None:
    frame = pandas.DataFrame({"size.a": [1, 2], "size.b": [2, 1], "done": ["b", "a"], "who": [1, 2]})
    assert helba.check(frame.set_index("who"), {**WIDE, "user": "who"}) == helba.check(frame, {**WIDE, "user": "who"})


def test_transforms_and_rounds_of_a_data_frame(tmp_path: Path) -> None:
    columns = {"size.b": [2, 1, 4], "size.a": [4, 0, 3], "done": ["a", "b", "b"]}
    schema = {**WIDE, "candidates": ["b", "a"]}
    frame = pandas.DataFrame(columns)
    rounds = helba.Rounds.of(frame, schema)
    assert (rounds.arms, rounds.rewards) == (["b", "a"], [[0, 1], [1, 0], [1, 0]])
    assert np.allclose(rounds.contexts, [[[0.5], [1]], [[0.25], [0]], [[1], [0.75]]])
    transform = helba.Transform.fit(frame, schema)
    for candidates in (pandas.DataFrame({"size": [2, 4]}), polars.DataFrame({"size": [2, 4]}), [{"size": 2}, {"size": 4}]):
        assert transform.rows(candidates) == rounds.contexts[0]
    transform.save(tmp_path / "transform.json")
    assert helba.Transform.open(tmp_path / "transform.json").names == rounds.features
    with pytest.raises(helba.DataError, match="helba.evaluate"):
        helba.Rounds.of(LOGGED, LOGGED_SCHEMA)


EUROS = {
    "layout": "wide", "candidates": ["up", "down"], "chosen": "offer", "reward": "paid", "reward_range": [0, 50],
    "score": {}, "context": {"x": "max"}, "candidate": {"price": "max"},
}


def purchases(library: Any, rounds: int) -> Any:
    """A log of purchases in euros: an offer sells if the sign of x is its own."""
    rng = np.random.default_rng(7)
    x, offer = rng.uniform(-1, 1, rounds), rng.choice(["up", "down"], rounds)
    prices = {f"price.{name}": rng.uniform(5, 50, rounds).round(2) for name in ("up", "down")}
    price = np.where(offer == "up", prices["price.up"], prices["price.down"])
    paid = np.where((x > 0) == (offer == "up"), price, 0.0)
    return library.DataFrame({"x": x, **prices, "offer": offer, "paid": paid})


@pytest.mark.parametrize("library", [pandas, polars])
def test_the_lines_of_the_readme_go_from_a_log_to_a_bandit(client: helba.Client, library: Any) -> None:
    blocks = (ROOT / "clients" / "python" / "README.md").read_text().split("```python\n")[1:]
    lines = next(block.split("```")[0] for block in blocks if "helba.Logged.of" in block)
    visits = purchases(library, 300)
    names: dict[str, Any] = {
        "helba": helba, "client": client, "visits": visits, "schema": EUROS, "earlier": 200,
        "candidates": [{"price": 20}, {"price": 45.5}], "context": {"x": 0.5},
    }
    exec(lines, names)
    logged, bandit = names["logged"], names["bandit"]
    later = visits[200:]
    assert logged.arms == ["up", "down"] and logged.features == names["transform"].names and logged.features[0] == "score"
    assert [logged.arms[arm] for arm in logged.played] == list(later["offer"])
    assert np.allclose(logged.rewards, np.array(later["paid"]) / 50) and max(logged.rewards) > 0.5
    assert logged.rewards == [names["transform"].reward(paid) for paid in later["paid"]], "live rewards are mapped as those of a log"
    live = names["transform"].rows([{"price": later[name][200 if library is pandas else 0]} for name in ("price.up", "price.down")], {"x": next(iter(later["x"]))})
    assert logged.contexts[0] == live
    assert len(logged) == 100 and bandit.status().feedbacks == 101
    # What was learnt by this name is not learnt again.
    assert bandit.learn(logged.contexts, logged.played, logged.rewards, name="history").feedbacks == 101


def test_a_score_does_not_come_from_the_rewards_that_are_learnt() -> None:
    visits = purchases(pandas, 300)
    transform = helba.Transform.fit(visits[:200], EUROS)
    logged = helba.Logged.of(visits[200:], transform)
    other = helba.Logged.of(visits[200:].assign(paid=50 - visits["paid"]), transform)
    assert other.contexts == logged.contexts and other.rewards != logged.rewards
    for read in (helba.Logged.of, helba.Rounds.of):
        with pytest.raises(helba.DataError) as refused:
            read(visits[200:], EUROS)
        said = str(refused.value)
        assert "would be learnt from the rewards of the data frame" in said and "helba.Transform.fit(earlier, schema)" in said
    # Without a score the schema will do, and is what it has taught.
    plain = {name: value for name, value in EUROS.items() if name != "score"}
    assert helba.Logged.of(visits, plain) == helba.Logged.of(visits, helba.Transform.fit(visits, plain))


def test_candidates_of_a_log_may_differ_from_round_to_round(tmp_path: Path) -> None:
    """Rows of candidates, of which 1 in `shown` is the one that was played."""
    frame = pandas.DataFrame({
        "visit": [1, 1, 2, 2, 3, 3], "item": ["tea", "milk", "milk", "soap", "soap", "tea"],
        "price": [2, 1, 1, 4, 4, 2], "shown": [0, 1, 1, 0, 0, 1], "paid": [0, 1, 0.5, 0, 0, 2],
    })
    schema = {
        "layout": "long", "round": "visit", "candidate_column": "item", "chosen": "shown", "reward": "paid", "reward_range": [0, 4],
        "candidate": {"price": "max"},
    }
    logged = helba.Logged.of(frame, schema)
    assert (logged.played, logged.rewards) == ([1, 0, 1], [0.25, 0.125, 0.5])
    assert logged.contexts == [[[0.5], [0.25]], [[0.25], [1]], [[1], [0.5]]]
    with pytest.raises(helba.DataError, match="outside reward_range"):
        helba.Logged.of(frame.assign(paid=5), schema)
    with pytest.raises(helba.DataError, match="helba.Logged.of` reads it"):
        helba.Rounds.of(frame, schema)


def test_rounds_take_a_transform_in_the_place_of_the_schema() -> None:
    frame = pandas.DataFrame({"size.a": [4, 0, 3], "size.b": [2, 1, 4], "done": ["a", "b", "b"]})
    transform = helba.Transform.fit(frame, WIDE)
    assert helba.Rounds.of(frame, transform) == helba.Rounds.of(frame, WIDE)
    assert helba.Rounds.of(frame[1:], transform).contexts == helba.Rounds.of(frame, WIDE).contexts[1:]
    with pytest.raises(helba.DataError, match="helba.Rounds.of` reads it"):
        helba.Logged.of(frame, WIDE)
    with pytest.raises(helba.ArgumentError, match="the schema is a int"):
        helba.Logged.of(frame, 7)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda frame: helba.check(frame.rename(columns={"done": "size.a"}), WIDE), "two columns have this name"),
        (lambda frame: helba.check(frame, {**WIDE, "chosen": "did"}), "the data frame, line 1, column did: there is no such column"),
        (lambda frame: helba.check(frame, {**WIDE, "layuot": "wide"}), "layuot"),
        (lambda frame: helba.check(frame.assign(**{"size.a": "dear"}), WIDE), "line 2, column size.a, value \"dear\""),
        (lambda frame: helba.check(frame.assign(**{"size.a": [[1], [2]]}), WIDE), "size.a of the data frame holds a list"),
        (lambda frame: helba.check(pandas.concat({"x": frame}, axis=1)), "several levels"),
        (lambda frame: helba.check(frame.set_axis([0, 1, 2], axis=1)), "numbers for names"),
        (lambda frame: helba.check(frame[[]]), "there is no header"),
        (lambda frame: helba.evaluate(frame), "give one, as schema=…; `helba.check"),
        (lambda frame: helba.evaluate(frame, WIDE, policies=["none"]), "no policy is named none"),
        (lambda frame: helba.evaluate(frame, WIDE, policies="oful"), "a list of names"),
        (lambda frame: helba.evaluate(frame, WIDE, grid={"none": [1]}), "none"),
        (lambda frame: helba.evaluate(frame, WIDE, seeds=1), "from 2 to 1000"),
        (lambda frame: helba.evaluate(frame, WIDE, policy_column="mine"), "the data frame, line 1, column mine: there is no such column"),
        (lambda frame: helba.evaluate(frame, WIDE, policy_column="size.a"), "line 2, column size.a"),
        (lambda frame: helba.evaluate(frame, WIDE, policy_column=["done"]), "policy_column is a list: give the name of a column"),
        (lambda frame: helba.evaluate(ROOT / "data" / "Yogurt.csv", policy_column="done"), "policy_column needs a schema"),
        (lambda frame: helba.evaluate(frame, WIDE, policies=["ucb1"], decisions="none/p.csv"), "none/p.csv cannot be written"),
        (lambda frame: helba.evaluate(frame, WIDE, decisions=frame), "the file of decisions is a data frame"),
        (lambda frame: helba.check(7), "the data are a int"),
        (lambda frame: helba.check(frame, frame), "the schema is a data frame: give the path of a file"),
        (lambda frame: helba.check(CARS, "no such file.toml"), "cannot be read"),
        (lambda frame: helba.check("no such file.csv"), "cannot be opened"),
        (lambda frame: helba.Rounds.open(frame), "is a data frame: give the path"),
        (lambda frame: helba.Transform.open(frame), "is a data frame: give the path"),
        (lambda frame: helba.Transform.learn(WIDE, frame), "Transform.fit"),
    ],
)
def test_what_cannot_be_read_is_named(call: Any, says: str) -> None:
    frame = pandas.DataFrame({"size.a": [1, 2], "size.b": [2, 1], "done": ["b", "a"]})
    with pytest.raises(helba.ArgumentError) as refused:
        call(frame)
    assert says in str(refused.value) and "a str" not in str(refused.value)
    assert "/helba-" not in str(refused.value), "the path of a temporary file"


def test_programs_are_built() -> None:
    assert (PROGRAMS / "helba-client").exists()
