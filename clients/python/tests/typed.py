"""A program that mypy --strict accepts: the types that users see."""

import asyncio
from pathlib import Path
from typing import Any, Optional

import helba
import helba.aio
import numpy as np


def play(url: str, bundle: Path, contexts: np.ndarray[Any, np.dtype[np.float32]]) -> float:
    keys: helba.Keys = helba.Keys.open(bundle, passphrase="x")
    with helba.Client(url, keys, token=Path("token"), patience=2.5) as client:
        transform: helba.Transform = helba.Transform.learn({"candidate": {"price": "max"}}, [])
        named: list[list[float]] = transform.rows([{"price": 1, "kind": "tea", "new": True}, {"price": None}])
        bandit: helba.Bandit = client.create(features=2, arms=2, lambda_=2.0)
        bandit.decide(named)
        logged: helba.Logged = helba.Logged.of("log.csv", transform)
        learnt: helba.Learnt = bandit.learn(logged.contexts, logged.played, logged.rewards, name="history")
        paid: float = transform.reward(0.5)
        decision: helba.Decision = bandit.decide(contexts)
        others: list[helba.Decision] = bandit.decide_many([contexts, [[0.5, 0.5], [1, 0]]])
        counted: helba.Counted = bandit.feedback(decision, paid, arm=1 - decision.arm)
        stored: bytes = others[0].to_bytes(keys)
        bandit.feedback(helba.Decision.from_bytes(stored, keys), 1)
        status: helba.Status = bandit.status()
        counters: helba.Counters = bandit.counters()
        model: dict[str, object] = bandit.export()
        second: helba.Bandit = bandit.copy(name=str(model["feedbacks"]), alpha=0.1)
        second.delete()
        bandit.freeze()
        bandit.thaw()
        replay: helba.Replay = bandit.replay([[[0.5, 0.5], [1, 0]]], [[0, 1]], progress=True)
        with client.raiser([bandit.bandit_id]) as raiser:
            ended: bool = raiser.wait(1)
        try:
            bandit.delete()
        except helba.NotFoundError as error:
            print(error.code, error.status, error.detail, helba.PROBLEMS[error.code])
        except helba.UnreachableError as error:
            print(error.server)
        return counted.feedbacks + learnt.rounds + counters.feedbacks + status.round + replay.hit_rate + ended


def play_with_committee(url: str, committee: str) -> bytes:
    client = helba.Client(url, committee=committee, session=Path("my.session"))
    bandit: helba.Bandit = client.create(features=2, arms=2, sessions=1, decisions=16)
    decision: helba.Decision = bandit.decide([[0.5, 0.5], [1, 0]])
    bandit.feedback(helba.Decision.from_bytes(decision.to_bytes()), 0.5)
    known: Optional[str] = bandit.committee
    assert known == committee and bandit.erase(decision.decision_id) == ""
    kept: bytes = client.session_bytes()
    helba.aio.Client(url, session=kept)
    return kept


async def play_async(url: str, keys: helba.Keys) -> list[int]:
    async with helba.aio.Client(url, keys) as client:
        bandit: helba.aio.Bandit = await client.create(features=2, arms=2)
        decisions = await asyncio.gather(*(bandit.decide([[0.5, 0.5], [1, 0]]) for _ in range(16)))
        counted: helba.Counted = await bandit.feedback(decisions[0], 0.5)
        return [decision.arm for decision in decisions] + [counted.feedbacks]
