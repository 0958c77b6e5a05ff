"""Rounds of a file."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Union

from . import _native
from ._data import Schema, schema_text
from ._errors import ContextsError
from ._frames import Data, Path, file_of, path_of
from ._transform import Transform


@dataclass(frozen=True)
class Rounds:
    """The rounds of a file or data frame, in which the rewards of all candidates are known.

    rounds = helba.Rounds.of(visits, schema)           # or Rounds.open("rounds.csv")
    bandit = client.create(features=len(rounds.features), arms=len(rounds.arms))
    past = bandit.replay(rounds.contexts[:100], rounds.rewards[:100])
    """

    arms: list[str]
    """The names of the candidates."""
    features: list[str]
    """The names of the features of a candidate."""
    contexts: list[list[list[float]]]
    """For each round one row of features for each arm, as `Bandit.decide` takes them."""
    rewards: list[list[float]]
    """For each round the reward of each arm."""

    @classmethod
    def of(cls, data: Data, schema: Union[Schema, Transform]) -> Rounds:
        """The rounds of a file or data frame, as `helba.check` takes it.

        A `Transform` in the place of the schema makes features by what it has learnt from other rows, as a schema with a
        score needs. Raises DataError with line, column and value of what cannot be read, for a schema with a score, and
        for a log that has the reward of one arm in each round only, which `Logged` reads.
        """
        given = _features_by(schema)
        with file_of(data) as (path, shown):
            return cls(*_native.rounds_of_data(path, shown, given))

    @classmethod
    def open(cls, path: Path) -> Rounds:
        """Reads a file that `helba-client data convert` wrote. A `ContextsError` says which line cannot be read.

        A file of logged actions is refused, since it has the reward of one arm in each round only: compare policies on
        it with `helba-client data evaluate`, or have a bandit learn it with `helba-client learn`.
        """
        path = path_of(path, "the file of the rounds")
        with open(path, newline="", encoding="utf-8") as file:
            table = csv.reader(file)
            header = next(table, [])
            at = {name: i for i, name in enumerate(header)}
            columns = [(kind, arm) for kind, dot, arm in (name.partition(".") for name in header) if dot]
            arms = [arm for kind, arm in columns if kind == "reward"]
            if "action" in at and not arms:
                raise ContextsError(
                    f"{path} has the reward of one arm in each round only: `helba-client data evaluate` compares "
                    "policies on it"
                )
            if "round" not in at or not arms:
                raise ContextsError(f"{path} has no columns of rounds: `helba-client data convert` writes such a file")
            features = [kind for kind, arm in columns if kind.startswith("x") and arm == arms[0]]
            missing = [f"{kind}.{arm}" for arm in arms for kind in features if f"{kind}.{arm}" not in at]
            if missing or not features:
                raise ContextsError(f"{path} has no column {(missing or ['x1.' + arms[0]])[0]}")
            wanted = [[at[f"{kind}.{arm}"] for kind in features] for arm in arms]
            earned = [at[f"reward.{arm}"] for arm in arms]
            contexts, rewards = [], []
            for row in table:
                try:
                    contexts.append([[float(row[i]) for i in places] for places in wanted])
                    rewards.append([float(row[i]) for i in earned])
                except (ValueError, IndexError):
                    raise ContextsError(f"{path}, line {table.line_num}: a value is missing or no number") from None
        return cls(arms, features, contexts, rewards)

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        return f"<helba.Rounds {len(self)} rounds of {len(self.features)} features and {len(self.arms)} arms>"


@dataclass(frozen=True)
class Logged:
    """The logged rounds of a file or data frame: what `Bandit.learn` takes.

    transform = helba.Transform.fit(earlier, schema)
    logged = helba.Logged.of(visits, transform)
    bandit = client.create(features=transform.features, arms=transform.arms, horizon=10_000 + len(logged))
    bandit.learn(logged.contexts, logged.played, logged.rewards, name="history")
    """

    arms: list[str]
    """The names of the candidates."""
    features: list[str]
    """The names of the features of a candidate."""
    contexts: list[list[list[float]]]
    """For each round one row of features for each arm."""
    played: list[int]
    """For each round the arm that was played, from 0."""
    rewards: list[float]
    """For each round the reward of that arm, from 0 to 1: `reward_range` of the schema has mapped it."""

    @classmethod
    def of(cls, data: Data, schema: Union[Schema, Transform]) -> Logged:
        """The rounds of a file or data frame, as `helba.check` takes it, with the columns `chosen` and `reward`.

        Decide live rounds by the same features: `Transform.fit` learns them, and a `Transform` in the place of the schema
        makes them. A schema with a score needs one that was learnt from other rows, so that the score of a round does not
        come from its reward. Raises DataError with line, column and value of what cannot be read, for a schema with a
        score, and for data with the rewards of all arms, which `Rounds` reads.
        """
        given = _features_by(schema)
        with file_of(data) as (path, shown):
            return cls(*_native.logged_rounds_of_data(path, shown, given))

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        return f"<helba.Logged {len(self)} rounds of {len(self.features)} features and {len(self.arms)} arms>"


def _features_by(schema: Union[Schema, Transform]) -> Union[tuple[str, bool], _native.Transform]:
    return schema._native if isinstance(schema, Transform) else schema_text(schema)
