"""Requests of all kinds of bandits as calls, for `helba` and `helba.aio`."""

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

Session = Union[str, "os.PathLike[str]", bytes, None]

_CLEAR_BYTES = b"HELBACLR\x01\x00"
"""The first bytes of a stored decision of a clear policy; JSON follows."""
_COMMITTEE_BYTES = b"HELBACOM\x01\x00"
"""The first bytes of a stored decision of a committee; JSON follows."""
_OF_KEYS_ALONE: dict[str, str] = dict(_native.of_keys_alone())
"""Parameters of a bandit under keys that one of a committee does not have, and why."""


class Decision:
    """A decision: play `arm`, and return its reward with `Bandit.feedback`.

    It holds the contexts of a bandit under keys until it is dropped, and shows them to nobody.
    """

    __slots__ = ("_answer", "_details", "_told")

    _answer: Optional[_native.Answer]
    _details: dict[str, Any]
    _told: Optional[_native.Told]

    def __init__(
        self, answer: Optional[_native.Answer], details: dict[str, Any], told: Optional[_native.Told] = None
    ) -> None:
        self._answer = answer
        self._details = details
        self._told = told
        """Of a decision of a committee: the feedback that was sent."""

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
        if self._told is not None:
            return 1.0
        found: Optional[float] = self._details.get("probability")
        return found

    @property
    def encrypted(self) -> bool:
        """Whether an encrypted bandit decided."""
        return self._answer is not None or self._told is not None

    @property
    def details(self) -> Mapping[str, Any]:
        """The whole answer of a clear policy, with its privacy statement; empty of an encrypted bandit."""
        return {} if self._told is not None else dict(self._details)

    def to_bytes(self, keys: Optional[Keys] = None) -> bytes:
        """The decision as bytes, so that another process can return its reward.

        The bytes of a decision under keys contain its contexts, and are sealed under `keys`. Those of a decision of
        a committee show its arm, and no context: keep them as private as the session, which returns the reward.
        """
        if self._told is not None:
            return _COMMITTEE_BYTES + json.dumps(self._details).encode()
        if self._answer is None:
            return _CLEAR_BYTES + json.dumps(self._details).encode()
        if keys is None:
            raise KeysError("the decision holds contexts: give the keys that seal it, as decision.to_bytes(keys)")
        return self._answer.seal(keys)

    @staticmethod
    def from_bytes(data: bytes, keys: Optional[Keys] = None) -> Decision:
        """The decision that `to_bytes` made the bytes of."""
        if data.startswith(_CLEAR_BYTES):
            return Decision(None, _stored(data[len(_CLEAR_BYTES) :], {"bandit": str, "decision": str}))
        if data.startswith(_COMMITTEE_BYTES):
            kinds = {"bandit": str, "decision": str, "arm": int, "round": int}
            return Decision(None, _stored(data[len(_COMMITTEE_BYTES) :], kinds), _native.Told())
        if keys is None:
            raise KeysError("the decision is sealed: give the keys, as Decision.from_bytes(data, keys)")
        return Decision(_native.Answer.unseal(data, keys), {})

    def __repr__(self) -> str:
        return f"<helba.Decision {self.decision_id} of bandit {self.bandit_id}>"

    def __reduce__(self) -> Any:
        raise TypeError("a helba.Decision cannot be pickled or copied: use to_bytes and from_bytes")


def _stored(data: bytes, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The details of a stored decision, with values of these kinds."""
    try:
        details: dict[str, Any] = json.loads(data)
        if not all(isinstance(details[name], kind) for name, kind in kinds.items()):
            raise ValueError
    except (ValueError, LookupError, TypeError):
        raise DecisionError("the bytes are no decision of this version: give them unchanged") from None
    return details


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
    """Whether the server sees neither contexts nor rewards."""
    committee: Optional[str]
    """The id of the committee that computes it, if one does."""
    created: Mapping[str, Any]
    labels: Labels

    @property
    def of_keys(self) -> bool:
        """Whether it is encrypted under keys of its users."""
        return self.encrypted and self.committee is None

    @property
    def kind(self) -> str:
        """What it is called in sentences about what it does not do."""
        return "a clear policy" if not self.encrypted else "a bandit of a committee" if self.committee else "a bandit"

    @staticmethod
    def of(created: Mapping[str, Any]) -> Description:
        """Of the answer to a creation, or of a row of the list."""
        if "committee" in created:
            return Description._of_committee(created)
        return Description(str(created["id"]), "plan" in created, None, created, _labels_of(created))

    @staticmethod
    def of_view(view: Mapping[str, Any]) -> Description:
        """Of the configuration and the state."""
        if "committee" in view:
            return Description._of_committee(view)
        created = view["created"]
        return Description(str(created["id"]), "plan" in created, None, created, _labels_of(view))

    @staticmethod
    def _of_committee(view: Mapping[str, Any]) -> Description:
        names = ("id", "committee", "founder", "sessions", "decisions_a_session", "counters", "rewards")
        created = {name: view[name] for name in names if name in view}
        # As of a bandit under keys.
        created["config"] = {"linear": json.loads(view["config"])}
        return Description(str(view["id"]), True, str(view["committee"]), created, _labels_of(view))


def connect(
    url: str,
    keys: Optional[Keys],
    token: Token,
    ca: Optional[Path],
    patience: float,
    committee: Optional[str],
    session: Session,
) -> _native.Connection:
    """A connection; nothing is sent."""
    text, file = (token, None) if token is None or isinstance(token, str) else (None, token)
    if keys is not None and not (committee is None and session is None):
        raise ArgumentError("keys and a committee are of two kinds of bandits: open a client with each")
    kept = session if isinstance(session, bytes) else None
    at = None if isinstance(session, bytes) else session
    connection = _native.Connection(url, keys, text, file, ca, patience, committee, at, kept)
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
    committee = connection.committee
    if committee is not None:
        linear, rules = of_committee_alone(configuration)
        text, rewards = encrypted_configuration(_defaults(features, arms), linear), linear.get("rewards")
        return Call(lambda done: committee.create(text, rules, rewards, labels, done), described)
    if not connection.has_keys:
        raise KeysError(
            "an encrypted bandit needs keys, as helba.Client(url, helba.Keys.open(path)), or a committee, as "
            "helba.Client(url, committee=ID); without them, name a clear policy of client.policies(), as policy='oful'"
        )
    text = encrypted_configuration(_defaults(features, arms), configuration)
    return Call(lambda done: connection.create(text, labels, done), described)


def _defaults(features: Optional[int], arms: Optional[int]) -> dict[str, Any]:
    if features is None or arms is None:
        raise ArgumentError("give the numbers of features and of arms, as create(features=7, arms=4)")
    for name, size in (("features", features), ("arms", arms)):
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 1 << 16:
            raise ArgumentError(f"{name} is {size!r}, it must be a whole number from 1 on")
    return dict(json.loads(_native.default_configuration(features, arms)))


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


def encrypted_configuration(configuration: dict[str, Any], changes: Mapping[str, Any]) -> str:
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


def of_committee_alone(changes: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[int, int]]:
    """The parameters that bandits under keys have too, and sessions and decisions, which a committee has alone."""
    linear = dict(changes)
    rules = []
    for name, default in (("sessions", 8), ("decisions", 32)):
        count = linear.pop(name, default)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count < 1 << 16:
            raise ArgumentError(f"{name} is {count!r}, it must be a whole number from 1 to 65535")
        rules.append(count)
    for name in linear:
        why = _OF_KEYS_ALONE.get(_plain(name))
        if why is not None:
            raise ArgumentError(f"a bandit of a committee has no {name}, since {why}: leave {name} out")
    return linear, (rules[0], rules[1])


def of_committee(connection: _native.Connection) -> _native.Committee:
    """The committee that the client was opened with."""
    if connection.committee is None:
        raise KeysError(
            "the bandit is computed by a committee: open the client with the committee's id and a file for the session, as "
            "helba.Client(url, committee=ID, session='my.session')"
        )
    return connection.committee


def session_bytes(connection: _native.Connection) -> Call[bytes]:
    if connection.committee is None:
        raise KeysError("the client has no session: open it with a committee, as helba.Client(url, committee=ID)")
    return Call(connection.committee.session, bytes)


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
        if "committee" in view:
            return Status(view["decisions"], view["feedbacks"] + view["unlearnt"], view["open"], view)
        counters = view.get("status", view)
        return Status(counters["round"], counters["feedbacks"], counters["pending_decisions"], view)

    return Call(lambda done: connection.view(bandit_id, done), finish)


def counters(connection: _native.Connection, bandit: Description) -> Call[Counters]:
    opening = connection.counters if bandit.committee is None else connection.counters_of_committee

    def finish(text: str) -> Counters:
        opened = json.loads(text)
        arms = opened["arms"]
        pulls, rewards = (tuple(float(arm[name]) for arm in arms) for name in ("pulls", "reward"))
        return Counters(opened["feedbacks"], pulls, rewards, float(opened["deviation"]))

    return Call(lambda done: opening(bandit.bandit_id, done), finish)


def erase(connection: _native.Connection, bandit: Description, decision_id: str) -> Call[str]:
    bandit_id = bandit.bandit_id
    if bandit.committee is not None:
        committee = of_committee(connection)
        return Call(lambda done: committee.erase(bandit_id, decision_id, done), lambda _: "")
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
    if bandit.committee is not None:
        raise ArgumentError(
            "each round of before takes a decision of a session with the committee: have them learnt with "
            "`helba-client committee learn`"
        )
    if not bandit.of_keys:
        raise ArgumentError(
            f"{bandit.kind} learns from feedback on its own decisions alone; learn is for encrypted bandits under keys"
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


def copy(
    connection: _native.Connection,
    bandit: Description,
    name: Optional[str],
    tags: Sequence[str],
    changes: Mapping[str, Any],
) -> Call[Description]:
    if not bandit.of_keys:
        raise ArgumentError(f"{bandit.kind} is not copied: name an encrypted bandit of a key bundle")
    configuration = json.loads(json.dumps(bandit.created["config"]))
    text, labels = encrypted_configuration(configuration, changes), (name, _tags(tags))
    return Call(
        lambda done: connection.copy(bandit.bandit_id, text, labels, done),
        lambda text: Description.of(json.loads(text)),
    )


def export(connection: _native.Connection, bandit_id: str) -> Call[dict[str, Any]]:
    def finish(text: str) -> dict[str, Any]:
        return dict(json.loads(text))

    return Call(lambda done: connection.export(bandit_id, done), finish)


def freeze(connection: _native.Connection, bandit_id: str, frozen: bool) -> Call[None]:
    return Call(lambda done: connection.freeze(bandit_id, frozen, done), lambda _: None)


def delete(connection: _native.Connection, bandit_id: str) -> Call[None]:
    return Call(lambda done: connection.delete(bandit_id, done), lambda _: None)


def explored(decision: Decision, epsilon: float) -> Decision:
    """The decision, whose arm is drawn uniformly from all open ones with probability `epsilon`."""
    answer = decision._answer
    return decision if answer is None or epsilon == 0 else Decision(answer.explored(epsilon), {})


def checked_epsilon(bandit: Description, epsilon: float) -> float:
    try:
        found = number(epsilon, "epsilon")
    except ContextsError as error:
        raise ArgumentError(str(error)) from None
    if not 0 <= found <= 1:
        raise ArgumentError(f"epsilon is {found:g}: give a probability, from 0 to 1")
    if found > 0 and not bandit.of_keys:
        raise ArgumentError(
            f"{bandit.kind} takes the reward of the arm that it chose, so that no other may be drawn: leave epsilon out"
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
    if bandit.committee is not None:
        committee = of_committee(connection)

        def of_text(text: str) -> list[Decision]:
            return [Decision(None, details, _native.Told()) for details in json.loads(text)]

        return Call(lambda done: committee.decide(bandit.bandit_id, given, done), of_text)

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
        raise ArgumentError(f"{bandit.kind} takes the reward of the arm that it decided for: leave arm out")
    told = decision._told
    if told is not None:
        if reward is None or given:
            raise ArgumentError("a bandit of a committee takes one reward, as feedback(decision, reward)")
        committee, value, label = of_committee(connection), reward_of(reward), decision.decision_id

        def of_count(text: str) -> Counted:
            return Counted(label, int(text))

        return Call(lambda done: committee.feedback(bandit.bandit_id, label, value, told, done), of_count)
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
