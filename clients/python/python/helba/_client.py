"""The client, whose methods wait."""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Optional, Union

from . import _native, _requests
from ._contexts import Contexts
from ._errors import Error
from ._learning import Predicted, arms_of, fit, rounds_of, unreliable
from ._native import Keys
from ._replay import Replay, play
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

PATIENCE = 10.0
"""Seconds for which requests are repeated while the server is away."""
_FLUSH = 10.0
"""The most seconds that the end of a client or of the program waits for answers to the server's tasks."""


class Client:
    """A server of bandits. The methods wait for it, without the interpreter's lock, and Ctrl-C ends a wait.

    url is https://HOST:PORT, or on a private line http://HOST:PORT. With keys, it plays encrypted bandits,
    whose contexts and rewards are encrypted in this process. token is an access token of 64 hexadecimal
    digits, or the path of a file with one; keys have a token of their own. ca is a PEM file of the
    authorities to trust instead of those that browsers trust. While the server cannot be reached, requests
    are repeated for patience seconds.

    With committee, the id that the members of a committee print, it plays bandits that these members compute, and
    keeps a session in place of keys. session is the path of a file for it, readable for its owner alone: it is written
    when the session begins, and read by later clients. It may also be what `session_bytes` returned. Without one, the
    session ends with the client, and so do the decisions that wait for a reward.

    A client may be used by several threads at once. Nothing is sent before the first call. `with` closes it.
    """

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

    def session_bytes(self) -> bytes:
        """The session with the committee, for another client as session=. Whoever has it reads its arms: keep it secret.

        The first call begins the session, if no decision has.
        """
        return _requests.session_bytes(self._connection).result()

    def create(
        self,
        *,
        features: Optional[int] = None,
        arms: Optional[int] = None,
        policy: Optional[str] = None,
        name: Optional[str] = None,
        tags: Sequence[str] = (),
        **configuration: Any,
    ) -> Bandit:
        """Creates an encrypted bandit, or with policy, a name of `policies`, one whose data the server reads.

        features is the number of features of an arm, and arms that of arms. Further arguments are those of the
        configuration, such as horizon=5000 and lambda_=2.0 of an encrypted bandit, or epsilon=1.0 of a policy.
        rewards=(low, high) of an encrypted bandit is the range of rewards, from which its alpha follows ((0, 1) if left
        out); alpha=0.3 and width="root" change how it explores. name and tags are for people, and the server reads them.
        A request that is repeated creates one bandit.

        A client with a committee creates a bandit of that committee. sessions=8 is the least number of sessions whose
        feedback a batch has, and decisions=32 the most decisions of a session between two batches. rewards=(low, high) is
        part of such a bandit: devices refuse rewards outside it, and without it those outside -1 to 1.
        """
        call = _requests.create(self._connection, features, arms, policy, name, tags, configuration)
        return Bandit(self._connection, call.result())

    def bandit(self, bandit_id: str) -> Bandit:
        """The bandit with this id."""
        return Bandit(self._connection, _requests.found(self._connection, bandit_id).result())

    def bandits(self, *, name: Optional[str] = None, tag: Optional[str] = None) -> list[Bandit]:
        """The bandits of all kinds that the token gives access to; with this name and this tag, if given."""
        return [Bandit(self._connection, one) for one in _requests.listed(self._connection, name, tag).result()]

    def policies(self) -> list[dict[str, Any]]:
        """The clear policies of the server: each with its name, a sentence about it, and an example."""
        return _requests.policies(self._connection).result()

    def raiser(self, bandits: Iterable[str] = (), *, waiting: int = 2) -> Raiser:
        """A raiser for these bandits, or for all encrypted ones of the server; `with` runs it on a thread."""
        return Raiser(self._connection, [str(one) for one in bandits], waiting)

    def raise_forever(self, bandits: Iterable[str] = (), *, waiting: int = 2) -> None:
        """Raises for these bandits, or for all encrypted ones of the server, until Ctrl-C."""
        with self.raiser(bandits, waiting=waiting) as raiser:
            raiser.wait()

    def close(self) -> None:
        """Waits until the answers to tasks that the server gave with decisions are sent, for at most 10 s.

        The end of the program does this by itself.
        """
        self._connection.flush(_FLUSH)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            self.close()

    def __repr__(self) -> str:
        return f"<helba.Client {self.server}>"

    def __reduce__(self) -> Any:
        raise TypeError("a helba.Client cannot be pickled or copied: open one in each process")


class Bandit:
    """A bandit of a server: encrypted, under keys or by a committee, or with a clear policy. `Client.create` and `Client.bandit` return it."""

    def __init__(self, connection: _native.Connection, description: Description) -> None:
        self._connection = connection
        self._description = description
        self._predicted = Predicted()

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
        """The id of the committee that computes the bandit; None if none does."""
        return self._description.committee

    @property
    def created(self) -> Mapping[str, Any]:
        """The bandit as it was created: configuration or policy, parameters, and what holders of the key see."""
        return self._description.created

    @property
    def labels(self) -> Labels:
        """The name and the tags, as this object has read or written them last."""
        return self._description.labels

    def label(
        self, *, name: Union[str, None, Unset] = UNSET, tags: Union[Sequence[str], None, Unset] = UNSET
    ) -> Labels:
        """Changes the name and the tags, as label(name="Shop", tags=["live"]). What is not given stays, None removes."""
        labels = _requests.label(self._connection, self.bandit_id, name, tags).result()
        self._description = replace(self._description, labels=labels)
        return labels

    def decide(self, contexts: Optional[Contexts] = None, *, epsilon: float = 0.0) -> Decision:
        """Asks which arm to play.

        contexts has one row of features for each arm: a list of lists, or an array of any real type. A clear
        policy without contexts takes none. The rows of an encrypted bandit have a norm of at most l, by
        default 1, and are encrypted before they are sent.

        None in place of a row closes this arm for the decision: it is not played and gets no feedback, and of
        an encrypted bandit nobody else learns that it is closed.

        With probability epsilon, this process draws the arm to play uniformly from all open ones, of an encrypted bandit:
        `decision.chosen` is what the bandit chose, and `decision.probability` that of the arm to play.

        Raises ContextsError before anything is sent; RefusedError and UnreachableError.
        """
        epsilon = _requests.checked_epsilon(self._description, epsilon)
        decision = _requests.decide(self._connection, self._description, contexts).result()
        return _requests.explored(decision, epsilon)

    def decide_many(self, contexts: Sequence[Contexts], *, epsilon: float = 0.0) -> list[Decision]:
        """Decisions for several users, in their order, each with an id and a feedback of its own.

        An encrypted bandit makes them in as few requests as they fit into, with the bytes of one decision
        each. If one of several requests fails, the decisions of those before it are lost. A clear policy and a
        committee are asked once for each.
        """
        epsilon = _requests.checked_epsilon(self._description, epsilon)
        if not self.encrypted:
            return [self.decide(one) for one in contexts]
        made = _requests.decide_several(self._connection, self._description, contexts).result()
        return [_requests.explored(decision, epsilon) for decision in made]

    def feedback(
        self,
        decision: Decision,
        reward: Optional[float] = None,
        *,
        arm: Optional[int] = None,
        rewards: Optional[Sequence[float]] = None,
        sum: Optional[float] = None,
        share: Optional[int] = None,
    ) -> Counted:
        """Returns the reward of a decision, from -1 to 1 for an encrypted bandit, and encrypted for it.

        arm is the arm that was played, if it is not that of the decision, of a bandit under keys. Some clear policies learn from the
        rewards of all arms, the sum of what arrived, or a share instead. The first reward counts; the same
        one may be sent again.
        """
        others = {"rewards": rewards, "sum": sum, "share": share}
        call = _requests.feedback(self._connection, self._description, decision, reward, arm, others)
        return call.result()

    def predict(self, X: Any) -> Any:
        """The arm to play in each round of X, as scikit-learn names it: an array of numpy where that is in use, else a list.

        X has the shape rounds x arms x features: arrays, lists or a list of data frames. A matrix or data frame of
        rounds x features is for features that all arms share, of a bandit with arms times as many features, in which
        each arm learns on its own.

        Each round is a decision of the bandit, which waits for its reward: give it with `partial_fit`.
        """
        rounds = rounds_of(self, X)
        return arms_of(self._predicted, rounds, self._decided(rounds))

    def partial_fit(self, X: Any, arm: Any, reward: Any) -> Bandit:
        """Learns from the rewards of the arms that were played in the rounds of X, one of each for each round.

        Rounds that `predict` was asked about count as these decisions. A bandit under keys is asked about others, and
        learns about the arm that is given; a clear policy and a committee learn about the arm that they chose alone. If a
        request fails, the rounds before it are learnt.
        """
        known = fit(self, self._predicted, X, arm, reward)
        for decision, value, played in known.feedback(self._decided(known.missing)):
            self.feedback(decision, value, arm=played if self._description.of_keys else None)
        return self

    def _decided(self, rounds: list[Any]) -> list[Decision]:
        """Decisions whose answers can be relied on."""
        made, tries = self.decide_many(rounds), 1
        while again := unreliable(made, tries):
            for at, decision in zip(again, self.decide_many([rounds[at] for at in again])):
                made[at] = decision
            tries += 1
        return made

    def learn(self, contexts: Any, arms: Any, rewards: Any, *, name: Optional[str] = None) -> Learnt:
        """Has an encrypted bandit learn logged rounds in bulk, before it goes live.

        contexts[t] is the row of features of the arm that was played in round t, or one row for each arm;
        arms[t] is the arm, and rewards[t] its reward, from -1 to 1. Up to 1000 rounds travel in one ciphertext,
        and count as feedback. Returns when the model has what the schedule of the bandit has closed.

        What was learnt by the same name is not learnt again: give one, so that a program that failed may run
        again. The server remembers the last 4096 requests of a bandit, one for every 1000 rounds. Single rounds
        cannot be erased. Create the bandit with a `horizon` that includes them.
        """
        call = _requests.learn(self._connection, self._description, contexts, arms, rewards, name)
        return call.result()

    def status(self) -> Status:
        """The counters of the bandit, which are public."""
        return _requests.status(self._connection, self.bandit_id).result()

    def counters(self) -> Counters:
        """How often all devices played each arm, of an encrypted bandit that was created with `counters={}`.

        The keys open them, for whole groups of feedbacks (`counters={"every": 100}`), with noise if `rho` asks for it.
        The members of a committee have opened theirs, without noise.
        """
        return _requests.counters(self._connection, self._description).result()

    def erase(self, decision_id: str) -> str:
        """Erases the feedback on a decision of an encrypted bandit: later models have nothing of it.

        Returns a code that the server alone computes, as a receipt, and of a committee an empty text. A second call
        changes nothing.
        """
        return _requests.erase(self._connection, self._description, decision_id).result()

    def copy(self, *, name: Optional[str] = None, tags: Sequence[str] = (), **changes: Any) -> Bandit:
        """Creates a copy of an encrypted bandit: it begins with the sums and the model, and learns by itself.

        changes are arguments of `create` that sums and model do not depend on, such as alpha=0.1 or schedule.
        """
        call = _requests.copy(self._connection, self._description, name, tags, changes)
        return Bandit(self._connection, call.result())

    def export(self) -> dict[str, Any]:
        """The model of an encrypted bandit in the clear, which `json.dump` writes and any linear library reads.

        `omega` has the coefficients and `inverse` the matrix A: the index of an arm with features x is omega @ x plus the
        bonus of z = x @ inverse @ x, as docs/late-feedback.md writes it. Keep it from the server and its operator.
        """
        return _requests.export(self._connection, self.bandit_id).result()

    def freeze(self) -> None:
        """Lets an encrypted bandit decide with the model that it has, and learn nothing, until `thaw`.

        Rewards are refused meanwhile (`ConflictError`, code `frozen`); decisions wait for them, so that they can be
        returned later.
        """
        _requests.freeze(self._connection, self.bandit_id, True).result()

    def thaw(self) -> None:
        """Lets a bandit learn that was frozen."""
        _requests.freeze(self._connection, self.bandit_id, False).result()

    def delete(self) -> None:
        """Deletes the bandit and what it has learnt."""
        _requests.delete(self._connection, self.bandit_id).result()

    def replay(self, contexts: Any, rewards: Any, progress: bool = False) -> Replay:
        """Plays recorded rounds one after the other: contexts[t] decides, and rewards[t][arm] is returned.

        contexts has the shape rounds x arms x features, rewards rounds x arms. With progress, a bar of tqdm
        is shown if it is installed.
        """
        return play(self, contexts, rewards, progress)

    def __repr__(self) -> str:
        kind = "of a committee" if self.committee else "encrypted" if self.encrypted else self.created.get("policy")
        return f"<helba.Bandit {self.bandit_id}, {kind}>"


class Raiser:
    """Answers what encrypted bandits ask of a holder of the key, so that no device is asked.

    It sees masked values alone. `with client.raiser(): ...` runs it on a thread beside the program; the end
    of the block stops it. It logs to the logger `helba`.
    """

    def __init__(self, connection: _native.Connection, bandits: list[str], waiting: int) -> None:
        self._connection = connection
        self._bandits = bandits
        self._waiting = waiting
        self._running: Optional[_native.Raising] = None

    def start(self) -> None:
        """Starts the thread."""
        if self._running is not None:
            raise Error("the raiser was started before: make another one with client.raiser()")
        self._running = _native.Raising(self._connection, self._bandits, self._waiting)

    def stop(self) -> None:
        """Stops the thread, and waits until answers that were begun are sent, for about 10 s at most.

        Raises what ended the raiser before, such as KeysError for a server with other keys.
        """
        if self._running is not None:
            self._running.stop()
            self._running.wait(2 * _FLUSH)

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Waits until the raiser has ended, and returns whether it has. Raises what ended it."""
        if self._running is None:
            raise Error("the raiser was not started")
        return bool(self._running.wait(seconds))

    def __enter__(self) -> Raiser:
        self.start()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.stop()


@atexit.register
def _close_all() -> None:
    """Waits for the answers of all clients together, then lets no thread enter the interpreter any more."""
    deadline = time.monotonic() + _FLUSH
    try:
        for client in list(_requests.connected):
            try:
                client._connection.flush(max(0.0, deadline - time.monotonic()))
            except Error:
                # A process that was forked off has nothing to wait for.
                pass
    finally:
        _native.end()
