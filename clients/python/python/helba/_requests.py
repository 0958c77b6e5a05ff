"""Requests of both kinds of bandits as calls, for `helba` and `helba.aio`."""

from __future__ import annotations

import enum
import json
import operator
import os
import secrets
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from . import _native
from ._calls import Call
from ._contexts import Contexts, iterated, number, reward_of, rows
from ._errors import ArgumentError, ContextsError, DecisionError, Error, InsecureWarning, KeysError
from ._native import Keys

Path = Union[str, "os.PathLike[str]"]
Token = Union[str, "os.PathLike[str]", None]

connected: weakref.WeakSet[Any] = weakref.WeakSet()
"""The clients, for which the end of the program waits."""

_CLEAR_BYTES = b"HELBACLR\x01\x00"
"""The first bytes of a stored decision of a clear policy; JSON follows."""


class Decision:
    """A decision: play `arm`, and return its reward with `Bandit.feedback`.

    It holds the contexts of an encrypted bandit until it is dropped, and shows them to nobody.
    """

    __slots__ = ("_answer", "_details")

    _answer: Optional[_native.Answer]
    _details: dict[str, Any]

    def __init__(self, answer: Optional[_native.Answer], details: dict[str, Any]) -> None:
        self._answer = answer
        self._details = details

    @property
    def arm(self) -> int:
        """The arm to play, from 0: what the bandit chose, or with epsilon what was drawn in its place."""
        if self._answer is not None:
            return self._answer.arm
        arm = self._details["arm"]
        if arm is None:
            raise Error("devices of this policy choose their arms themselves: use `secure-sum users`")
        return int(arm)

    @property
    def decision_id(self) -> str:
        """The id of the decision, in hexadecimal."""
        return self._answer.id if self._answer is not None else str(self._details["decision"])

    @property
    def bandit_id(self) -> str:
        """The id of the bandit that decided."""
        return self._answer.bandit if self._answer is not None else str(self._details["bandit"])

    @property
    def reliable(self) -> bool:
        """Whether the arm can be relied on.

        It is False if an encrypted answer is outside its range: contexts of somebody were too long, or the
        server deviates from the protocol. Ask for a new decision then. Clear decisions are reliable.
        """
        return self._answer is None or self._answer.reliable

    @property
    def round(self) -> Optional[int]:
        """The number of the decision, from 1; None if it comes from `from_bytes`."""
        return self._answer.round if self._answer is not None else self._details.get("round")

    @property
    def users(self) -> Optional[int]:
        """How many decisions shared the encrypted evaluation; None of a clear one, or if it comes from `from_bytes`."""
        return self._answer.users if self._answer is not None else None

    @property
    def chosen(self) -> Optional[int]:
        """The arm that the bandit chose, which is not `arm` if epsilon drew another; None if it comes from `from_bytes`."""
        return self._answer.chosen if self._answer is not None else self._details.get("arm")

    @property
    def probability(self) -> Optional[float]:
        """The probability with which `arm` was to be played, for estimates from a log.

        The model determines what an encrypted bandit chooses, so that it is 1 without epsilon. None of a clear policy,
        whose own draws the server does not tell, and if the decision comes from `from_bytes`.
        """
        if self._answer is not None:
            return self._answer.probability
        found: Optional[float] = self._details.get("probability")
        return found

    @property
    def encrypted(self) -> bool:
        """Whether an encrypted bandit decided."""
        return self._answer is not None

    @property
    def details(self) -> Mapping[str, Any]:
        """The whole answer of a clear policy, with its privacy statement; empty of an encrypted bandit."""
        return dict(self._details)

    def to_bytes(self, keys: Optional[Keys] = None) -> bytes:
        """The decision as bytes, so that another process can return its reward.

        The bytes of an encrypted bandit's decision contain its contexts, and are sealed under `keys`.
        """
        if self._answer is None:
            return _CLEAR_BYTES + json.dumps(self._details).encode()
        if keys is None:
            raise KeysError("the decision holds contexts: give the keys that seal it, as decision.to_bytes(keys)")
        return self._answer.seal(keys)

    @staticmethod
    def from_bytes(data: bytes, keys: Optional[Keys] = None) -> Decision:
        """The decision that `to_bytes` made the bytes of."""
        if data.startswith(_CLEAR_BYTES):
            try:
                details = json.loads(data[len(_CLEAR_BYTES) :])
                if not all(isinstance(details[name], str) for name in ("bandit", "decision")):
                    raise ValueError
            except (ValueError, LookupError, TypeError):
                raise DecisionError("the bytes are no decision of this version: give them unchanged") from None
            return Decision(None, details)
        if keys is None:
            raise KeysError("the decision is sealed: give the keys, as Decision.from_bytes(data, keys)")
        return Decision(_native.Answer.unseal(data, keys), {})

    def __repr__(self) -> str:
        return f"<helba.Decision {self.decision_id} of bandit {self.bandit_id}>"

    def __reduce__(self) -> Any:
        raise TypeError("a helba.Decision cannot be pickled or copied: use to_bytes and from_bytes")


@dataclass(frozen=True)
class Counted:
    """The receipt of a feedback."""

    decision_id: str
    """The decision."""
    feedbacks: int
    """How many feedbacks the bandit has counted, with this one."""


@dataclass(frozen=True)
class Learnt:
    """The receipt of logged rounds."""

    name: str
    """Their name: what was learnt by it is not learnt again."""
    rounds: int
    """How many are learnt."""
    feedbacks: int
    """How many feedbacks and logged rounds the bandit has counted."""
    model_feedbacks: int
    """How many of them are in the model in use."""
    erasable: bool = False
    """Whether single rounds of them can be erased: the server has their sum alone."""


@dataclass(frozen=True)
class Status:
    """The public state of a bandit."""

    round: int
    """The number of decisions."""
    feedbacks: int
    """The number of feedbacks that were counted."""
    pending_decisions: int
    """The number of decisions that wait for feedback."""
    details: Mapping[str, Any] = field(repr=False, compare=False)
    """The whole state as the server gives it."""


@dataclass(frozen=True)
class Counters:
    """How often all devices of a bandit played each arm, and with which rewards."""

    feedbacks: int
    """The feedbacks that are counted: the first ones, in whole groups."""
    pulls: tuple[float, ...]
    """How often each arm was played."""
    rewards: tuple[float, ...]
    """The sum of the rewards of each arm."""
    deviation: float
    """The standard deviation of the noise in each of these numbers; 0 without noise."""

    @property
    def means(self) -> tuple[Optional[float], ...]:
        """The mean reward of each arm; None for one that was not played."""
        return tuple(sum / count if count >= 1 else None for count, sum in zip(self.pulls, self.rewards))


@dataclass(frozen=True)
class Labels:
    """The name and the tags of a bandit, which the server reads. Neither has to be unique."""

    name: Optional[str]
    """The name; None if there is none."""
    tags: tuple[str, ...]
    """The tags."""


def _labels_of(labelled: Mapping[str, Any]) -> Labels:
    return Labels(labelled.get("name"), tuple(labelled.get("tags", ())))


@dataclass(frozen=True)
class Description:
    """A bandit as it was created."""

    bandit_id: str
    encrypted: bool
    created: Mapping[str, Any]
    labels: Labels

    @staticmethod
    def of(created: Mapping[str, Any]) -> Description:
        """Of the answer to a creation, or of a row of the list."""
        return Description(str(created["id"]), "plan" in created, created, _labels_of(created))

    @staticmethod
    def of_view(view: Mapping[str, Any]) -> Description:
        """Of the configuration and the state."""
        created = view["created"]
        return Description(str(created["id"]), "plan" in created, created, _labels_of(view))


def connect(
    url: str, keys: Optional[Keys], token: Token, ca: Optional[Path], patience: float
) -> _native.Connection:
    """A connection; nothing is sent."""
    text, file = (token, None) if token is None or isinstance(token, str) else (None, token)
    connection = _native.Connection(url, keys, text, file, ca, patience)
    if connection.shows_token:
        message = (
            f"the access token is sent to {connection.server} without encryption, and everybody who reads it can use "
            "it: use https, or a private line"
        )
        warnings.warn(message, InsecureWarning, stacklevel=3)
    return connection


def create(
    connection: _native.Connection,
    features: Optional[int],
    arms: Optional[int],
    policy: Optional[str],
    name: Optional[str],
    tags: Sequence[str],
    configuration: dict[str, Any],
) -> Call[Description]:
    labels = (name, _tags(tags))

    def described(text: str) -> Description:
        return Description.of(json.loads(text))

    if policy is not None and policy != "helba":
        sizes = {"features": features, "arms": arms}
        given = {name: size for name, size in sizes.items() if size is not None}
        parameters = json.dumps({**given, **{_plain(name): value for name, value in configuration.items()}})
        return Call(lambda done: connection.create_policy(policy, parameters, labels, done), described)
    if not connection.has_keys:
        raise KeysError(
            "an encrypted bandit needs keys, as helba.Client(url, helba.Keys.open(path)); without them, name a clear "
            "policy of client.policies(), as policy='oful'"
        )
    if features is None or arms is None:
        raise ArgumentError("give the numbers of features and of arms, as create(features=7, arms=4)")
    text = encrypted_configuration(features, arms, configuration)
    return Call(lambda done: connection.create(text, labels, done), described)


def _tags(tags: Sequence[str]) -> list[str]:
    if isinstance(tags, str):
        raise ArgumentError("tags is one text: give a list of texts")
    return [str(tag) for tag in tags]


class Unset(enum.Enum):
    """A value that was not given, where None is one."""

    UNSET = 0


UNSET = Unset.UNSET


def label(
    connection: _native.Connection,
    bandit_id: str,
    name: Union[str, None, Unset],
    tags: Union[Sequence[str], None, Unset],
) -> Call[Labels]:
    """What is not given stays, and None removes."""
    patch: dict[str, Any] = {}
    if not isinstance(name, Unset):
        patch["name"] = name
    if not isinstance(tags, Unset):
        patch["tags"] = None if tags is None else _tags(tags)
    if not patch:
        raise ArgumentError("give what changes, as label(name='Shop', tags=['live']); None removes")
    text = json.dumps(patch)
    return Call(lambda done: connection.label(bandit_id, text, done), lambda text: _labels_of(json.loads(text)))


def _plain(name: str) -> str:
    """`lambda_` is the parameter lambda, which is a keyword in Python."""
    return name.rstrip("_")


def encrypted_configuration(features: int, arms: int, changes: Mapping[str, Any]) -> str:
    for name, size in (("features", features), ("arms", arms)):
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 1 << 16:
            raise ArgumentError(f"{name} is {size!r}, it must be a whole number from 1 on")
    configuration = json.loads(_native.default_configuration(features, arms))
    linear = configuration["linear"]
    exploration: dict[str, Any] = {}
    for name, value in changes.items():
        name = _plain(name)
        if name in ("alpha", "rewards") or name == "width" and value in ("tangent", "root"):
            exploration[name] = value
        elif name in linear and name not in ("d", "k"):
            linear[name] = value
        elif name in configuration and name != "linear":
            configuration[name] = value
        else:
            known = sorted({"alpha", "rewards", *linear, *configuration} - {"d", "k", "linear", "lambda"} | {"lambda_"})
            raise ArgumentError(f"an encrypted bandit has no parameter {name}; it has {', '.join(known)}")
    try:
        text, warning = _native.exploring(json.dumps(configuration), **exploration)
    except TypeError as error:
        raise ArgumentError(f"a parameter cannot be sent: {error}") from None
    if warning:
        warnings.warn(warning, stacklevel=4)
    return text


def listed(
    connection: _native.Connection, name: Optional[str], tag: Optional[str]
) -> Call[list[Description]]:
    def finish(text: str) -> list[Description]:
        return [Description.of(created) for created in json.loads(text)]

    return Call(lambda done: connection.bandits(name, tag, done), finish)


def policies(connection: _native.Connection) -> Call[list[dict[str, Any]]]:
    def finish(text: str) -> list[dict[str, Any]]:
        return list(json.loads(text))

    return Call(connection.policies, finish)


def found(connection: _native.Connection, bandit_id: str) -> Call[Description]:
    return Call(
        lambda done: connection.view(bandit_id, done), lambda text: Description.of_view(json.loads(text))
    )


def status(connection: _native.Connection, bandit_id: str) -> Call[Status]:
    def finish(text: str) -> Status:
        view = json.loads(text)
        counters = view.get("status", view)
        return Status(counters["round"], counters["feedbacks"], counters["pending_decisions"], view)

    return Call(lambda done: connection.view(bandit_id, done), finish)


def counters(connection: _native.Connection, bandit_id: str) -> Call[Counters]:
    def finish(text: str) -> Counters:
        opened = json.loads(text)
        arms = opened["arms"]
        pulls, rewards = (tuple(float(arm[name]) for arm in arms) for name in ("pulls", "reward"))
        return Counters(opened["feedbacks"], pulls, rewards, float(opened["deviation"]))

    return Call(lambda done: connection.counters(bandit_id, done), finish)


def erase(connection: _native.Connection, bandit_id: str, decision_id: str) -> Call[str]:
    return Call(
        lambda done: connection.erase(bandit_id, decision_id, done), lambda text: str(json.loads(text)["code"])
    )


def learn(
    connection: _native.Connection,
    bandit: Description,
    contexts: Any,
    arms: Any,
    rewards: Any,
    name: Optional[str],
) -> Call[Learnt]:
    if not bandit.encrypted:
        raise ArgumentError(
            "a clear policy learns from feedback on its own decisions alone; learn is for encrypted bandits"
        )
    given = list(iterated(contexts, "the contexts"))
    played = [index(arm, at) for at, arm in enumerate(iterated(arms, "the arms"))]
    earned = [
        number(reward, f"the reward of round {at}") for at, reward in enumerate(iterated(rewards, "the rewards"))
    ]
    if not len(given) == len(played) == len(earned):
        counts = f"contexts of {len(given)} rounds, {len(played)} arms and {len(earned)} rewards"
        raise ContextsError(f"there are {counts}: give as many of each")
    features = [played_row(at, one, arm) for at, (one, arm) in enumerate(zip(given, played))]
    name = secrets.token_hex(16) if name is None else name

    def finish(text: str) -> Learnt:
        learnt = json.loads(text)
        return Learnt(learnt["name"], learnt["rounds"], learnt["feedbacks"], learnt["model_feedbacks"])

    logged = list(zip(played, features, earned))
    return Call(lambda done: connection.learn(bandit.bandit_id, name, logged, done), finish)


def played_row(at: int, context: Any, arm: int) -> list[float]:
    """The features of the arm that was played: of one row of features, or of one row for each arm."""
    values = list(iterated(context, f"the contexts of round {at}"))
    if values and hasattr(values[0], "__iter__"):
        if not arm < len(values):
            raise ContextsError(f"round {at} has {len(values)} rows of features, and arm {arm} was played")
        values = list(iterated(values[arm], f"the features of round {at}"))
    return [number(value, f"feature {feature} of round {at}") for feature, value in enumerate(values)]


def index(arm: Any, at: int) -> int:
    """An arm as a number from 0."""
    try:
        found = operator.index(arm)
    except TypeError:
        raise ContextsError(f"the arm of round {at} is a {type(arm).__name__}: give its number, from 0") from None
    if found < 0:
        raise ContextsError(f"the arm of round {at} is {found}: arms are numbered from 0")
    return found


def delete(connection: _native.Connection, bandit_id: str) -> Call[None]:
    return Call(lambda done: connection.delete(bandit_id, done), lambda _: None)


def explored(decision: Decision, epsilon: float) -> Decision:
    """The decision, whose arm is drawn uniformly from all with probability `epsilon`."""
    answer = decision._answer
    return decision if answer is None or epsilon == 0 else Decision(answer.explored(epsilon), {})


def checked_epsilon(bandit: Description, epsilon: float) -> float:
    try:
        found = number(epsilon, "epsilon")
    except ContextsError as error:
        raise ArgumentError(str(error)) from None
    if not 0 <= found <= 1:
        raise ArgumentError(f"epsilon is {found:g}: give a probability, from 0 to 1")
    if found > 0 and not bandit.encrypted:
        raise ArgumentError(
            "a clear policy takes the reward of the arm that it chose, so that no other may be drawn: leave epsilon out"
        )
    return found


def decide(
    connection: _native.Connection, bandit: Description, contexts: Optional[Contexts]
) -> Call[Decision]:
    if not bandit.encrypted:
        given = None if contexts is None else rows(contexts)

        def finish(text: str) -> Decision:
            return Decision(None, {"bandit": bandit.bandit_id, **json.loads(text)})

        return Call(lambda done: connection.decide_clear(bandit.bandit_id, given, done), finish)
    several = decide_several(connection, bandit, [needed(contexts)])
    return Call(several.start, lambda answers: several.finish(answers)[0])


def decide_several(
    connection: _native.Connection, bandit: Description, contexts: Sequence[Contexts]
) -> Call[list[Decision]]:
    """Decisions of an encrypted bandit."""
    given = [rows(one) for one in contexts]

    def finish(answers: list[_native.Answer]) -> list[Decision]:
        return [Decision(answer, {}) for answer in answers]

    return Call(lambda done: connection.decide(bandit.bandit_id, given, done), finish)


def needed(contexts: Optional[Contexts]) -> Contexts:
    if contexts is None:
        raise ArgumentError("an encrypted bandit decides on contexts: give one row of features for each arm")
    return contexts


def most_decisions(connection: _native.Connection, bandit_id: str) -> Call[int]:
    return Call(lambda done: connection.most_decisions(bandit_id, done), int)


def flush(connection: _native.Connection, seconds: float) -> Call[None]:
    return Call(lambda done: connection.flush(seconds, done), lambda _: None)


def feedback(
    connection: _native.Connection,
    bandit: Description,
    decision: Decision,
    reward: Optional[float],
    arm: Optional[int],
    others: Mapping[str, Any],
) -> Call[Counted]:
    if decision.bandit_id != bandit.bandit_id:
        raise DecisionError(f"the decision is of bandit {decision.bandit_id}, and this is bandit {bandit.bandit_id}")
    given = {name: value for name, value in others.items() if value is not None}
    answer = decision._answer
    if answer is not None:
        if reward is None or given:
            raise ArgumentError("an encrypted bandit takes one reward, as feedback(decision, reward)")
        earned = reward_of(reward)

        def finish(text: str) -> Counted:
            receipt = json.loads(text)
            return Counted(receipt["decision"], receipt["feedbacks"])

        return Call(lambda done: connection.feedback(answer, arm, earned, done), finish)
    if arm is not None:
        raise ArgumentError("a clear policy takes the reward of the arm that it decided for: leave arm out")
    if reward is not None:
        given["reward"] = reward_of(reward)
    try:
        text = json.dumps({name: _listed(value) for name, value in given.items()})
    except TypeError as error:
        raise ArgumentError(f"the feedback cannot be sent: {error}") from None

    def counted(text: str) -> Counted:
        receipt = json.loads(text)
        return Counted(receipt["of"], receipt["feedbacks"])

    identity = decision.decision_id
    return Call(lambda done: connection.feedback_clear(bandit.bandit_id, identity, text, done), counted)


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
