"""Recorded rounds, played one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._contexts import check_numbers, is_array, row, rows
from ._errors import ContextsError
from ._frames import is_frame, matrix

if TYPE_CHECKING:
    from ._client import Bandit


@dataclass(frozen=True)
class Replay:
    """The result of recorded rounds."""

    arms: list[int]
    """The arm that was played in each round."""
    hits: int
    """The number of rounds whose arm had the largest reward of the round."""
    reward: float
    """The sum of the rewards of the arms that were played."""
    unreliable: int
    """The number of rounds whose decision could not be relied on."""

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.arms)

    @property
    def hit_rate(self) -> float:
        """The share of hits among all rounds; 0 if there was none."""
        return self.hits / self.rounds if self.arms else 0.0


def play(bandit: Bandit, contexts: Any, rewards: Any, progress: bool) -> Replay:
    if is_frame(rewards):
        rewards = matrix(rewards)
    for values, name, dimensions in ((contexts, "contexts", 3), (rewards, "rewards", 2)):
        if is_frame(values):
            raise ContextsError(
                f"the {name} are a data frame: helba.Rounds.of(data, schema) makes contexts and rewards of one"
            )
        if is_array(values):
            if values.ndim != dimensions:
                raise ContextsError(f"the {name} have {values.ndim} dimensions: a replay takes {dimensions}")
            check_numbers(values, f"the {name}")
    if len(contexts) != len(rewards):
        raise ContextsError(
            f"there are contexts of {len(contexts)} rounds and rewards of {len(rewards)}: give as many of each"
        )
    arms: list[int] = []
    hits, total, unreliable = 0, 0.0, 0
    for at in _shown(range(len(contexts)), progress):
        try:
            offered, earned = rows(contexts[at]), row(0, rewards[at])
        except ContextsError as error:
            raise ContextsError(f"round {at}: {error}") from None
        if len(earned) != len(offered):
            raise ContextsError(f"round {at} has {len(offered)} arms and {len(earned)} rewards: give as many of each")
        decision = bandit.decide(offered)
        bandit.feedback(decision, earned[decision.arm])
        arms.append(decision.arm)
        hits += earned[decision.arm] == max(earned)
        total += earned[decision.arm]
        unreliable += not decision.reliable
    return Replay(arms, hits, total, unreliable)


def _shown(rounds: Iterable[int], progress: bool) -> Iterable[int]:
    if progress:
        try:
            tqdm = import_module("tqdm.auto").tqdm
        except ImportError:
            return rounds
        shown: Iterable[int] = tqdm(rounds, unit="round")
        return shown
    return rounds
