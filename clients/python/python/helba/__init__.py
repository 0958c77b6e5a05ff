"""Bandits of a helba-server: encrypted ones, whose contexts and rewards the server cannot read, and clear ones.

    import helba

    client = helba.Client("http://127.0.0.1:8080", helba.Keys.open("secret.bundle"))
    bandit = client.create(features=7, arms=4)
    decision = bandit.decide(contexts)                 # one row of features for each arm
    bandit.feedback(decision, reward)                  # the reward of decision.arm

Without keys, `client.create(policy="oful", features=7, arms=4)` makes a bandit with a clear policy, which
the same lines play. `helba.check` and `helba.evaluate` read files and data frames without a server. `helba.aio`
has the client for asyncio. Every exception is a `helba.Error`.
"""

from __future__ import annotations

from . import _native, aio
from ._client import Bandit, Client, Raiser
from ._data import Report, check, evaluate
from ._errors import (
    ArgumentError,
    BusyError,
    ConflictError,
    ContextsError,
    DataError,
    DecisionError,
    Error,
    ForbiddenError,
    InsecureWarning,
    KeysError,
    NotFoundError,
    ProtocolError,
    RefusedError,
    UnauthorizedError,
    UnreachableError,
)
from ._native import Keys
from ._replay import Replay
from ._requests import Counted, Counters, Decision, Labels, Learnt, Status
from ._rounds import Logged, Rounds
from ._transform import Transform

PROBLEMS: dict[str, str] = {code: sentence for code, _, sentence in _native.problems()}
"""The closed table of the codes of `RefusedError`, each with its sentence."""

__all__ = [
    "PROBLEMS",
    "ArgumentError",
    "Bandit",
    "BusyError",
    "Client",
    "ConflictError",
    "ContextsError",
    "Counted",
    "Counters",
    "DataError",
    "Decision",
    "DecisionError",
    "Error",
    "ForbiddenError",
    "InsecureWarning",
    "Keys",
    "KeysError",
    "Labels",
    "Learnt",
    "Logged",
    "NotFoundError",
    "ProtocolError",
    "Raiser",
    "RefusedError",
    "Replay",
    "Report",
    "Rounds",
    "Status",
    "Transform",
    "UnauthorizedError",
    "UnreachableError",
    "aio",
    "check",
    "evaluate",
]

for _name in __all__:
    _public = globals()[_name]
    if isinstance(_public, type) and _public is not Keys:
        _public.__module__ = __name__
del _name, _public
