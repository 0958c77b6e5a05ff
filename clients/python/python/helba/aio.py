"""The client for asyncio: as `helba.Client`, with methods that are awaited.

    client = helba.aio.Client("http://127.0.0.1:8080", helba.Keys.open("secret.bundle"))
    bandit = await client.create(features=7, arms=4)
    decision = await bandit.decide(contexts)
    await bandit.feedback(decision, reward)

Cryptography and requests run on threads of their own, so that the event loop goes on. Decisions of a bandit
that are asked for while one of its requests is under way share the next request. A task that is cancelled
waits no longer; what it has asked for goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Optional, Union

from . import _native, _requests
from ._client import _FLUSH, PATIENCE
from ._contexts import Contexts, rows
from ._learning import Predicted, arms_of, fit, rounds_of, unreliable
from ._native import Keys
from ._requests import (
    UNSET,
    Counted,
    Counters,
    Decision,
    Description,
    Labels,
    Learnt,
    Path,
    Session,
    Status,
    Token,
    Unset,
)

__all__ = ["Bandit", "Client"]


class Client:
    """A server of bandits, for one event loop at a time. The arguments are those of `helba.Client`."""

    def __init__(
        self,
        url: str,
        keys: Optional[Keys] = None,
        token: Token = None,
        ca: Optional[Path] = None,
        patience: float = PATIENCE,
        *,
        committee: Optional[str] = None,
        session: Session = None,
    ) -> None:
        self._connection = _requests.connect(url, keys, token, ca, patience, committee, session)
        _requests.connected.add(self)

    @property
    def server(self) -> str:
        """The address of the server."""
        return self._connection.server

    async def session_bytes(self) -> bytes:
        """As `helba.Client.session_bytes`."""
        return await _requests.session_bytes(self._connection).awaited()

    async def create(
        self,
        *,
        features: Optional[int] = None,
        arms: Optional[int] = None,
        policy: Optional[str] = None,
        name: Optional[str] = None,
        tags: Sequence[str] = (),
        **configuration: Any,
    ) -> Bandit:
        """As `helba.Client.create`."""
        call = _requests.create(self._connection, features, arms, policy, name, tags, configuration)
        return Bandit(self._connection, await call.awaited())

    async def bandit(self, bandit_id: str) -> Bandit:
        """As `helba.Client.bandit`."""
        return Bandit(self._connection, await _requests.found(self._connection, bandit_id).awaited())

    async def bandits(self, *, name: Optional[str] = None, tag: Optional[str] = None) -> list[Bandit]:
        """As `helba.Client.bandits`."""
        found = await _requests.listed(self._connection, name, tag).awaited()
        return [Bandit(self._connection, one) for one in found]

    async def policies(self) -> list[dict[str, Any]]:
        """As `helba.Client.policies`."""
        return await _requests.policies(self._connection).awaited()

    async def close(self) -> None:
        """As `helba.Client.close`."""
        await _requests.flush(self._connection, _FLUSH).awaited()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            await self.close()

    def __repr__(self) -> str:
        return f"<helba.aio.Client {self.server}>"

    def __reduce__(self) -> Any:
        raise TypeError("a helba.aio.Client cannot be pickled or copied: open one in each process")


class Bandit:
    """A bandit of a server. `Client.create` and `Client.bandit` return it."""

    def __init__(self, connection: _native.Connection, description: Description) -> None:
        self._connection = connection
        self._description = description
        self._predicted = Predicted()
        self._waiting: deque[tuple[list[list[float]], asyncio.Future[Decision]]] = deque()
        self._asking: Optional[asyncio.Task[None]] = None
        self._joining: Optional[asyncio.Task[int]] = None

    @property
    def bandit_id(self) -> str:
        """The id of the bandit."""
        return self._description.bandit_id

    @property
    def encrypted(self) -> bool:
        """Whether the server sees neither contexts nor rewards."""
        return self._description.encrypted

    @property
    def committee(self) -> Optional[str]:
        """As `helba.Bandit.committee`."""
        return self._description.committee

    @property
    def created(self) -> Mapping[str, Any]:
        """The bandit as it was created."""
        return self._description.created

    @property
    def labels(self) -> Labels:
        """As `helba.Bandit.labels`."""
        return self._description.labels

    async def label(
        self, *, name: Union[str, None, Unset] = UNSET, tags: Union[Sequence[str], None, Unset] = UNSET
    ) -> Labels:
        """As `helba.Bandit.label`."""
        call = _requests.label(self._connection, self.bandit_id, name, tags)
        self._description = replace(self._description, labels=await call.awaited())
        return self.labels

    async def decide(self, contexts: Optional[Contexts] = None, *, epsilon: float = 0.0) -> Decision:
        """As `helba.Bandit.decide`. Decisions of a bandit under keys that wait at the same time share a request."""
        epsilon = _requests.checked_epsilon(self._description, epsilon)
        if not self._description.of_keys:
            return await _requests.decide(self._connection, self._description, contexts).awaited()
        given = rows(_requests.needed(contexts))
        await self._most_decisions()
        self._connection.check(self.bandit_id, given)
        future: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._waiting.append((given, future))
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return _requests.explored(await future, epsilon)

    async def decide_many(self, contexts: Sequence[Contexts], *, epsilon: float = 0.0) -> list[Decision]:
        """As `helba.Bandit.decide_many`."""
        epsilon = _requests.checked_epsilon(self._description, epsilon)
        if not self.encrypted:
            return [await self.decide(one) for one in contexts]
        made = await _requests.decide_several(self._connection, self._description, contexts).awaited()
        return [_requests.explored(decision, epsilon) for decision in made]

    async def feedback(
        self,
        decision: Decision,
        reward: Optional[float] = None,
        *,
        arm: Optional[int] = None,
        rewards: Optional[Sequence[float]] = None,
        sum: Optional[float] = None,
        share: Optional[int] = None,
    ) -> Counted:
        """As `helba.Bandit.feedback`."""
        others = {"rewards": rewards, "sum": sum, "share": share}
        call = _requests.feedback(self._connection, self._description, decision, reward, arm, others)
        return await call.awaited()

    async def predict(self, X: Any) -> Any:
        """As `helba.Bandit.predict`."""
        rounds = rounds_of(self, X)
        return arms_of(self._predicted, rounds, await self._decided(rounds))

    async def partial_fit(self, X: Any, arm: Any, reward: Any) -> Bandit:
        """As `helba.Bandit.partial_fit`."""
        known = fit(self, self._predicted, X, arm, reward)
        for decision, value, played in known.feedback(await self._decided(known.missing)):
            await self.feedback(decision, value, arm=played if self._description.of_keys else None)
        return self

    async def _decided(self, rounds: list[Any]) -> list[Decision]:
        """Decisions whose answers can be relied on."""
        made, tries = await self.decide_many(rounds), 1
        while again := unreliable(made, tries):
            for at, decision in zip(again, await self.decide_many([rounds[at] for at in again])):
                made[at] = decision
            tries += 1
        return made

    async def learn(self, contexts: Any, arms: Any, rewards: Any, *, name: Optional[str] = None) -> Learnt:
        """As `helba.Bandit.learn`."""
        call = _requests.learn(self._connection, self._description, contexts, arms, rewards, name)
        return await call.awaited()

    async def status(self) -> Status:
        """As `helba.Bandit.status`."""
        return await _requests.status(self._connection, self.bandit_id).awaited()

    async def counters(self) -> Counters:
        """As `helba.Bandit.counters`."""
        return await _requests.counters(self._connection, self._description).awaited()

    async def erase(self, decision_id: str) -> str:
        """As `helba.Bandit.erase`."""
        return await _requests.erase(self._connection, self._description, decision_id).awaited()

    async def copy(self, *, name: Optional[str] = None, tags: Sequence[str] = (), **changes: Any) -> Bandit:
        """As `helba.Bandit.copy`."""
        call = _requests.copy(self._connection, self._description, name, tags, changes)
        return Bandit(self._connection, await call.awaited())

    async def export(self) -> dict[str, Any]:
        """As `helba.Bandit.export`."""
        return await _requests.export(self._connection, self.bandit_id).awaited()

    async def freeze(self) -> None:
        """As `helba.Bandit.freeze`."""
        await _requests.freeze(self._connection, self.bandit_id, True).awaited()

    async def thaw(self) -> None:
        """As `helba.Bandit.thaw`."""
        await _requests.freeze(self._connection, self.bandit_id, False).awaited()

    async def delete(self) -> None:
        """As `helba.Bandit.delete`."""
        await _requests.delete(self._connection, self.bandit_id).awaited()

    async def _most_decisions(self) -> int:
        """The most decisions of a request. The first call joins the bandit, for all who wait."""
        if self._joining is None:
            call = _requests.most_decisions(self._connection, self.bandit_id)
            self._joining = asyncio.get_running_loop().create_task(call.awaited())
        try:
            # One that is cancelled does not keep the others from joining.
            return await asyncio.shield(self._joining)
        except BaseException:
            if self._joining.done():
                self._joining = None
            raise

    async def _ask(self) -> None:
        """Asks for the decisions that wait, as many at a time as a request takes, until none waits."""
        try:
            # Whoever asks in the same turn of the loop shares the first request.
            await asyncio.sleep(0)
            while self._waiting:
                most = await self._most_decisions()
                load = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
                load = [(given, future) for given, future in load if not future.done()]
                await self._share(load)
        finally:
            self._asking = None
            # Only a loop that ends leaves some.
            while self._waiting:
                self._waiting.popleft()[1].cancel()

    async def _share(self, load: list[tuple[list[list[float]], asyncio.Future[Decision]]]) -> None:
        if not load:
            return
        several = [given for given, _ in load]
        try:
            made = await _requests.decide_several(self._connection, self._description, several).awaited()
        except Exception as error:
            for _, future in load:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), decision in zip(load, made):
            if not future.done():
                future.set_result(decision)

    def __repr__(self) -> str:
        kind = "of a committee" if self.committee else "encrypted" if self.encrypted else self.created.get("policy")
        return f"<helba.aio.Bandit {self.bandit_id}, {kind}>"
