"""Files and data frames of choices and logged decisions, without a server."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from . import _native
from ._errors import ArgumentError
from ._frames import Data, file_of, path_of

Schema = Union[str, "os.PathLike[str]", Mapping[str, Any]]
"""The path of a TOML file, or the schema as a dictionary."""


class Report(dict[str, Any]):
    """The numbers that `check` or `evaluate` found: a dictionary, as `helba-client data … --json` prints it.

    `text` is what that program prints for people. A notebook shows it.
    """

    def __init__(self, found: Mapping[str, Any], lines: Sequence[str]) -> None:
        super().__init__(found)
        self._lines = tuple(lines)

    @property
    def text(self) -> str:
        """The numbers as a text of several lines."""
        return "\n".join(self._lines)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> Any:
        return Report, (dict(self), self._lines)


def check(data: Data, schema: Optional[Schema] = None) -> Report:
    """Says what a schema makes of a file or data frame: rounds, features, what is lost.

    data is the path of a file (CSV, Parquet or dsjson), or a data frame of pandas or polars. Without a schema one is
    proposed: `toml` is its text, with comments, `schema` the same for `evaluate`, and `checked` what it makes of the data.

        proposed = helba.check(visits)
        print(proposed)
        print(helba.evaluate(visits, proposed["schema"]))

    Raises DataError with line, column and value of what cannot be read.
    """
    given = None if schema is None else schema_text(schema)
    with file_of(data) as (path, shown):
        return _report(_native.check_data(path, shown, given))


def evaluate(
    data: Data,
    schema: Optional[Schema] = None,
    *,
    policies: Sequence[str] = (),
    epsilon: float = 1.0,
    seeds: int = 10,
    rounds: Optional[int] = None,
    grid: Optional[Mapping[str, Sequence[float]]] = None,
    policy_column: Optional[str] = None,
    decisions: Optional[Union[str, "os.PathLike[str]"]] = None,
) -> Report:
    """Plays every policy that fits a file or data frame, and compares them, as `helba-client data evaluate` does.

    Where the rewards of all candidates are known, policies are replayed; else their rewards are estimated from logged
    actions and their probabilities. schema may be left out for a file that `helba-client data convert` wrote.
    policies are names, all that fit by default; epsilon is that of policies with a privacy guarantee, seeds the number
    of runs of each policy, each with the rounds in another order, and rounds the number of rounds from the first. grid
    has values to try, as {"alpha": [0.5, 1, 2]}: a policy with such parameters is evaluated with every combination.

    policy_column is a column with the candidate that a rule of your own picks, written as `chosen` is: policies are
    compared with it, as `column NAME`. It needs a schema. decisions is the path of a file to write, as CSV: what each
    policy picked in each round and run.

    Raises DataError for data that cannot be read, and for names that are none; ArgumentError for a file that cannot be
    written.
    """
    if isinstance(policies, str):
        raise ArgumentError("policies is one text: give a list of names")
    for name, number, least, most in (("seeds", seeds, 2, 1000), ("rounds", rounds, 1, 1 << 62)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most):
            raise ArgumentError(f"{name} is {number!r}: give a whole number from {least} to {most}")
    values = [(str(name), [float(value) for value in tried]) for name, tried in (grid or {}).items()]
    if policy_column is not None and not isinstance(policy_column, str):
        raise ArgumentError(f"policy_column is a {type(policy_column).__name__}: give the name of a column")
    picked = None if decisions is None else path_of(decisions, "the file of decisions")
    given = None if schema is None else schema_text(schema)
    with file_of(data) as (path, shown):
        found = _native.evaluate_data(
            path, shown, given, list(policies), float(epsilon), seeds, rounds, values, policy_column, picked
        )
        return _report(found)


def schema_text(schema: Schema) -> tuple[str, bool]:
    """A schema as a text, and whether that is TOML; JSON otherwise."""
    if isinstance(schema, Report):
        # What `check` returned for data without a schema.
        schema = schema.get("schema", schema)
    if isinstance(schema, Mapping):
        try:
            return json.dumps(schema), False
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"the schema cannot be written as JSON: {error}") from None
    path = path_of(schema, "the schema")
    try:
        return path.read_text(encoding="utf-8"), True
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"the schema {path} cannot be read: {error}") from None


def _report(found: tuple[str, list[str]]) -> Report:
    text, lines = found
    return Report(json.loads(text), lines)
