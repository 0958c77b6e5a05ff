"""Contexts as programs have them."""

from __future__ import annotations

import math
from typing import Any

import helba
import numpy as np
import pytest
from conftest import ARMS, FEATURES

GOOD = np.array([[0.5, -0.25, 0.125, 0.0], [0.0, 0.25, 0.5, -0.125]])


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "longdouble", ">f8", "int8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_every_type_and_order(encrypted: helba.Bandit, clear: helba.Bandit, kind: str, order: Any) -> None:
    array = np.array(GOOD, dtype=kind, order=order)
    for bandit in (encrypted, clear):
        assert bandit.decide(array).arm in range(ARMS)


def test_rows_keep_their_places() -> None:
    """Whatever the memory of an array looks like, its rows are those of the list."""
    from helba._contexts import rows

    wide = np.zeros((4, 8))
    wide[::2, ::2] = GOOD
    for array in (GOOD, np.asfortranarray(GOOD), GOOD.T.copy().T, wide[::2, ::2], GOOD.astype(">f8")):
        assert rows(array) == GOOD.tolist()
    assert rows(list(GOOD)) == rows(tuple(map(tuple, GOOD.tolist()))) == GOOD.tolist()
    third = np.array([[1 / 3]], dtype="float32")
    assert rows(third) == [[float(np.float32(1 / 3))]]


@pytest.mark.parametrize(
    ("contexts", "says"),
    [
        (GOOD[:1], "have 1 rows, but the bandit has 2 arms: give one row of features for each arm"),
        (GOOD[:, :3], "arm 0 has 3 features, but the bandit has 4"),
        ([[0.1] * 4, [0.1] * 5], "arm 1 has 5 features"),
        (GOOD[0], "have 1 dimensions: give 2"),
        (GOOD[None], "have 3 dimensions: give 2"),
        (np.where(GOOD == -0.25, math.nan, GOOD), "feature 1 of arm 0 is not a finite number"),
        ([[0.1] * 4, [0.1, 0.1, math.inf, 0.1]], "feature 2 of arm 1 is not a finite number"),
        (GOOD * 3, "the features of arm 0 have a norm above 1: divide all features"),
        (GOOD * 1j, "complex128: convert them to real numbers"),
        (np.array([["a"] * 4] * 2), "convert them to real numbers"),
        ([["0.5"] * 4] * 2, "feature 0 of arm 0 is a str: give a real number"),
        ([[None] * 4] * 2, "feature 0 of arm 0 is a NoneType"),
        ([[0.1] * 4, []], "arm 1 has no features: give None for an arm that is closed"),
        ([None, None], "all arms of the decision are closed"),
        ("text", "the contexts are a str: give a list of lists"),
        (7, "the contexts are a int"),
        ([0.1, 0.2], "the features of arm 0 are a float"),
        (None, "decides on contexts"),
    ],
)
def test_contexts_that_cannot_be_used(encrypted: helba.Bandit, contexts: Any, says: str) -> None:
    before = encrypted.status().round
    with pytest.raises(helba.ArgumentError) as refused:
        encrypted.decide(contexts)
    assert says in str(refused.value)
    assert isinstance(refused.value, helba.ContextsError) == (contexts is not None)
    assert isinstance(refused.value, (helba.Error, ValueError))
    # Nothing was sent, also if others of the request are good.
    if contexts is not None:
        with pytest.raises(helba.ContextsError):
            encrypted.decide_many([GOOD, contexts])
    assert encrypted.status().round == before


def test_a_bad_decision_among_several_is_named(encrypted: helba.Bandit) -> None:
    with pytest.raises(helba.ContextsError, match="decision 2 of the request: .* arm 0 have a norm"):
        encrypted.decide_many([GOOD, GOOD, GOOD * 3])


def test_a_clear_bandit_refuses_what_it_reads(clear: helba.Bandit) -> None:
    with pytest.raises(helba.ContextsError, match="not a finite number"):
        clear.decide(GOOD * math.nan)
    with pytest.raises(helba.RefusedError) as refused:
        clear.decide(GOOD[:1])
    assert (refused.value.code, refused.value.status) == ("bad_value", 422)


@pytest.mark.parametrize("reward", [1.5, -2, math.nan, math.inf, "1", None])
def test_rewards_are_bounded(encrypted: helba.Bandit, reward: Any) -> None:
    decision = encrypted.decide(GOOD)
    with pytest.raises(helba.ArgumentError):
        encrypted.feedback(decision, reward)
    assert encrypted.feedback(decision, np.float32(0.5)).feedbacks > 0


def test_sizes_are_those_of_the_tests() -> None:
    assert GOOD.shape == (ARMS, FEATURES)
