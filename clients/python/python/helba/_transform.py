"""Features by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union, overload

from . import _native
from ._contexts import reward_of
from ._data import Schema, schema_text
from ._errors import ContextsError
from ._frames import Data, Path, file_of, is_frame, kind, path_of, records

Values = Mapping[str, Union[float, str, bool, None]]
"""Values by name: numbers, texts, truth values, and None for no value."""


class Transform:
    """What makes features of named values, by a schema that docs/data.md describes.

    It holds ranges, categories and names, and with score features the coefficients of a model, which the rewards of the
    file determine. docs/threat-model.md says what they show.

        transform = helba.Transform.learn("schema.toml", examples)
        bandit = client.create(features=transform.features, arms=transform.arms)
        decision = bandit.decide(transform.rows([{"price": 3.5, "kind": "tea"}, {"price": 2.0, "kind": "juice"}]))
        bandit.feedback(decision, transform.reward(12.5))
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Transform) -> None:
        self._native = native

    @classmethod
    def learn(
        cls,
        schema: Schema,
        examples: Iterable[Mapping[str, Any]] = (),
    ) -> Transform:
        """Learns ranges and categories from example rounds.

        `schema` is the path of a TOML file, or the schema as a dictionary. A round is a dictionary with `candidates`, a
        list of named values for each arm, and `context` for those that all candidates share. A schema with `score = {}`
        needs rewards: `fit` learns them.
        """
        if is_frame(examples):
            raise ContextsError("the examples are a data frame: use Transform.fit(data, schema)")
        return cls(_native.Transform.learn(schema_text(schema), _text(list(examples))))

    @classmethod
    def fit(cls, data: Data, schema: Schema) -> Transform:
        """Learns ranges and categories from a file or data frame, as `helba.check` takes it, and from its rewards the
        model of `score = {}`.

        The same as `helba-client data transform`. Raises DataError with line, column and value of what cannot be read.
        """
        given = schema_text(schema)
        with file_of(data) as (path, shown):
            return cls(_native.fit_transform(path, shown, given))

    @classmethod
    def open(cls, path: Path) -> Transform:
        """Reads a file of `save`, or of `helba-client data transform`."""
        return cls(_native.Transform.read(path_of(path, "the file").read_text(encoding="utf-8")))

    def save(self, path: Path) -> None:
        """Writes it to a file, as JSON."""
        path_of(path, "the file").write_text(self._native.text() + "\n", encoding="utf-8")

    @overload
    def rows(
        self, candidates: Sequence[Values], context: Optional[Values] = None, previous: Optional[int] = None
    ) -> list[list[float]]: ...

    @overload
    def rows(
        self, candidates: Sequence[Optional[Values]], context: Optional[Values] = None, previous: Optional[int] = None
    ) -> list[Optional[list[float]]]: ...

    def rows(
        self, candidates: Sequence[Optional[Values]], context: Optional[Values] = None, previous: Optional[int] = None
    ) -> Any:
        """One row of features for each candidate, for `Bandit.decide`, and None for one that is None: it is closed.

        candidates is a list of named values for each candidate, or a data frame with a row for each.
        """
        if is_frame(candidates):
            candidates = records(candidates)
        return self._native.rows(_text({"candidates": candidates, "context": context or {}, "previous": previous}))

    def reward(self, value: float) -> float:
        """The reward, from 0 to 1, of a reward in the units of the data, for `Bandit.feedback`.

        `reward_range = [low, high]` of the schema makes (value - low) / (high - low) of it, as of the rewards of a file.
        A schema without one takes rewards from 0 to 1 as they are. Map a value once: what `Logged` and `Rounds` have is
        mapped. Raises ArgumentError, with the range and the value, for one outside.
        """
        return self._native.reward(reward_of(value))

    @property
    def names(self) -> list[str]:
        """The names of the features."""
        return self._native.names

    @property
    def features(self) -> int:
        """The number of features of a candidate."""
        return self._native.features

    @property
    def arms(self) -> int:
        """The number of candidates."""
        return self._native.arms

    def __repr__(self) -> str:
        return f"<helba.Transform {self.features} features of {self.arms} candidates>"


def _text(value: Any) -> str:
    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        if hasattr(value, "tolist"):
            return value.tolist()
        raise ContextsError(f"a named value is a {kind(value)}: give a number, a text, True, False or None")

    try:
        return json.dumps(value, default=plain, allow_nan=False)
    except ContextsError:
        raise
    except ValueError:
        raise ContextsError("a named value is not a finite number: give None for no value") from None
