"""Contexts and rewards of programs, as plain lists of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Protocol, Union

from ._errors import ArgumentError, ContextsError
from ._frames import is_frame, kind, matrix


class Array(Protocol):
    """An array as numpy has it: of any float or integer type and in any order of memory."""

    @property
    def ndim(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    def tolist(self) -> Any: ...
    def __getitem__(self, index: Any, /) -> Any: ...
    def __len__(self) -> int: ...


Contexts = Union[Sequence[Optional[Sequence[float]]], Array]
"""One row of features for each arm, and None for an arm that is closed."""


def is_array(values: object) -> bool:
    return all(hasattr(values, name) for name in ("ndim", "dtype", "tolist"))


def rows(contexts: Any) -> list[list[float]]:
    """The rows of `contexts` as lists of finite numbers, which are empty for closed arms. A data frame has a row for each arm."""
    if is_frame(contexts):
        contexts = matrix(contexts)
    if is_array(contexts):
        if contexts.ndim != 2:
            raise ContextsError(
                f"the contexts have {contexts.ndim} dimensions: give 2, with one row of features for each arm"
            )
        check_numbers(contexts, "the contexts")
        contexts = contexts.tolist()
    found = []
    for arm, features in enumerate(iterated(contexts, "the contexts")):
        found.append([] if features is None else row(arm, features))
        if features is not None and not found[-1]:
            raise ContextsError(f"arm {arm} has no features: give None for an arm that is closed")
    return found


def row(arm: int, features: object) -> list[float]:
    values = iterated(features, f"the features of arm {arm}")
    return [number(value, f"feature {at} of arm {arm}") for at, value in enumerate(values)]


def check_numbers(array: Any, what: str) -> None:
    kind = getattr(array.dtype, "kind", "f")
    if kind not in "fiu":
        raise ContextsError(f"{what} have the type {array.dtype}: convert them to real numbers, as .astype(float)")


def iterated(values: Any, what: str) -> Iterable[Any]:
    if is_array(values):
        values = values.tolist()
    if isinstance(values, (str, bytes, dict)) or is_frame(values) or not hasattr(values, "__iter__"):
        raise ContextsError(f"{what} are a {kind(values)}: give a list of lists of numbers, or an array")
    found: Iterable[Any] = values
    return found


def number(value: Any, what: str) -> float:
    try:
        if isinstance(value, (str, bytes, complex)):
            raise TypeError
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ContextsError(f"{what} is a {kind(value)}: give a real number") from None
    if not math.isfinite(found):
        raise ContextsError(f"{what} is not a finite number: replace it before you ask")
    return found


def reward_of(value: Any) -> float:
    """A reward as a finite number."""
    try:
        return number(value, "the reward")
    except ContextsError as error:
        raise ArgumentError(str(error)) from None
