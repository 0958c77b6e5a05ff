"""`predict` and `partial_fit`, by the names and shapes that scikit-learn has."""

from __future__ import annotations

import operator
import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

from ._contexts import check_numbers, is_array, iterated, reward_of, row, rows
from ._errors import ArgumentError, ContextsError, Error
from ._frames import is_frame, matrix

if TYPE_CHECKING:
    from . import _client, aio
    from ._requests import Decision

Rows = Optional[list[list[float]]]
"""One row of features for each arm; None for a policy that takes none."""

_MOST = 10_000
"""The most decisions of `predict` that wait for their rewards; the oldest are forgotten."""
_TRIES = 3
"""How often a round is asked about whose answer cannot be relied on."""


class Predicted:
    """Decisions of `predict` that wait for their rewards, by their features. Several threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, tuple[bytes, Decision]] = OrderedDict()
        self._next = 0

    def add(self, given: Rows, decision: Decision) -> None:
        with self._lock:
            self._waiting[self._next] = (_key(given), decision)
            self._next += 1
            if len(self._waiting) > _MOST:
                self._waiting.popitem(last=False)

    def take(self, rounds: Sequence[Rows], arms: Sequence[int], only_own: bool) -> list[Optional[Decision]]:
        """For each round the oldest decision on its features, of the same arm if there is one; None if there is none.

        With only_own, those of other arms do not count. If a round has none then, all decisions go on waiting.
        """
        with self._lock:
            by_key: dict[bytes, list[int]] = {}
            for at, (key, _) in self._waiting.items():
                by_key.setdefault(key, []).append(at)
            found: list[Optional[int]] = []
            for given, arm in zip(rounds, arms):
                places = by_key.get(_key(given), [])
                own = [at for at in places if self._waiting[at][1].arm == arm]
                best = next(iter(own if own or only_own else places), None)
                if best is not None:
                    places.remove(best)
                found.append(best)
            if only_own and None in found:
                return [None if at is None else self._waiting[at][1] for at in found]
            return [None if at is None else self._waiting.pop(at)[1] for at in found]


def arms_of(predicted: Predicted, rounds: list[Rows], decisions: list[Decision]) -> Any:
    """The arms to play; the decisions wait for their rewards."""
    for given, decision in zip(rounds, decisions):
        predicted.add(given, decision)
    arms = [decision.arm for decision in decisions]
    numpy = sys.modules.get("numpy")
    return arms if numpy is None else numpy.array(arms, dtype=int)


@dataclass(frozen=True)
class Fit:
    """Rewards of rounds, and the decisions of `predict` that they belong to."""

    found: list[Optional[Decision]]
    arms: list[int]
    rewards: list[float]
    missing: list[Rows]
    """The rounds that predict was not asked about."""

    def feedback(self, asked: list[Decision]) -> list[tuple[Decision, float, int]]:
        """The decision, the reward and the arm of each round, with the decisions of those that were missing."""
        others = iter(asked)
        decisions = [next(others) if one is None else one for one in self.found]
        return list(zip(decisions, self.rewards, self.arms))


def fit(bandit: Union[_client.Bandit, aio.Bandit], predicted: Predicted, X: Any, arm: Any, reward: Any) -> Fit:
    """Checks all rounds before anything is sent."""
    rounds = rounds_of(bandit, X)
    count = _sizes(bandit)[1]
    arms = [_arm(value, at, count) for at, value in enumerate(_listed(arm, "arm"))]
    rewards = [reward_of(value) for value in _listed(reward, "reward")]
    if not len(rounds) == len(arms) == len(rewards):
        raise ArgumentError(
            f"X has {len(rounds)} rounds, arm {len(arms)} and reward {len(rewards)} values: give as many of each"
        )
    if bandit.encrypted:
        for at, value in enumerate(rewards):
            if not -1 <= value <= 1:
                raise ArgumentError(f"the reward of round {at} is outside of -1 to 1, which an encrypted bandit takes")
    description = bandit._description
    found = predicted.take(rounds, arms, only_own=not description.of_keys)
    if None in found and not description.of_keys:
        raise ArgumentError(
            f"round {found.index(None)}: predict has not returned this arm for these features, or its reward was given "
            f"before: {description.kind} learns about the arm that it chose"
        )
    return Fit(found, arms, rewards, [given for given, one in zip(rounds, found) if one is None])


def rounds_of(bandit: Union[_client.Bandit, aio.Bandit], X: Any) -> list[Rows]:
    """The rounds of `X`: of rounds x arms x features, or of rounds x features that all arms share."""
    if is_frame(X):
        X = matrix(X)
    if is_array(X):
        if X.ndim not in (2, 3):
            raise ContextsError(f"X has {X.ndim} dimensions: give rounds x arms x features, or rounds x features")
        check_numbers(X, "the values of X")
        X = X.tolist()
    rounds = list(iterated(X, "the rounds of X"))
    features, arms = _sizes(bandit)
    if features is None:
        return [None] * len(rounds)
    return [_rows(one, at, features, arms) for at, one in enumerate(rounds)]


def _rows(given: Any, at: int, features: int, arms: int) -> list[list[float]]:
    try:
        if is_frame(given):
            given = matrix(given)
        values = list(iterated(given, "the features"))
        if not values or hasattr(values[0], "__iter__"):
            found = rows(values)
            if len(found) != arms or any(len(one) != features for one in found):
                raise ContextsError(f"it must have {arms} rows of {features} features, one for each arm")
            return found
        shared = row(0, values)
        if len(shared) * arms != features:
            own = f", or {features // arms} features that all arms share" if features % arms == 0 else ""
            raise ContextsError(
                f"it has {len(shared)} numbers: give {arms} rows of {features} features, one for each arm{own}"
            )
        # Each arm learns on its own: the shared features stand in the places of that arm.
        width = len(shared)
        return [[0.0] * (arm * width) + shared + [0.0] * ((arms - arm - 1) * width) for arm in range(arms)]
    except ContextsError as error:
        raise ContextsError(f"round {at} of X: {error}") from None


def _sizes(bandit: Union[_client.Bandit, aio.Bandit]) -> tuple[Optional[int], int]:
    """The numbers of features, None without contexts, and of arms."""
    created = bandit.created
    if bandit.encrypted:
        linear = created["config"]["linear"]
        return int(linear["d"]), int(linear["k"])
    parameters = created["parameters"]
    features = parameters.get("features")
    return None if features is None else int(features), int(parameters["arms"])


def unreliable(made: list[Decision], tries: int) -> list[int]:
    """The places of the decisions to ask for again, after so many tries.

    Raises Error after the last try.
    """
    again = [at for at, decision in enumerate(made) if not decision.reliable]
    if again and tries == _TRIES:
        raise Error("an answer is outside of its range: contexts of somebody were too long, or the server deviates")
    return again


def _listed(values: Any, what: str) -> list[Any]:
    if is_frame(values):
        found = matrix(values)
        if any(len(one) != 1 for one in found):
            raise ArgumentError(f"{what} is a data frame of several columns: give one of them")
        return [one[0] for one in found]
    if is_array(values):
        values = values.tolist()
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise ArgumentError(f"{what} is a {type(values).__name__}: give one value for each round")
    return list(values)


def _arm(value: Any, at: int, arms: int) -> int:
    try:
        # A column of whole numbers that has passed through one with gaps holds floats.
        found = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
    except TypeError:
        raise ArgumentError(f"the arm of round {at} is {value!r}: give its number, from 0") from None
    if not 0 <= found < arms:
        raise ArgumentError(f"the arm of round {at} is {found}, and arms are numbered from 0 to {arms - 1}")
    return found


def _key(given: Rows) -> bytes:
    return b"" if given is None else array("d", [value for one in given for value in one]).tobytes()
