"""`predict` and `partial_fit`, as scikit-learn users know them, and draws of arms."""

from __future__ import annotations

import asyncio
from typing import Any

import helba
import helba.aio
import numpy as np
import pytest
from conftest import ARMS, FEATURES, Server

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")


def make(client: helba.Client, kind: str, **more: Any) -> helba.Bandit:
    return client.create(features=FEATURES, arms=ARMS, policy="oful" if kind == "clear" else None, **more)


def some(rounds: int, seed: int = 3) -> Any:
    return np.random.default_rng(seed).uniform(-0.4, 0.4, (rounds, ARMS, FEATURES))


@pytest.mark.parametrize("kind", ["encrypted", "clear"])
def test_online_learning_as_in_scikit_learn(client: helba.Client, kind: str) -> None:
    bandit = make(client, kind)
    for batch in range(3):
        X = some(6, batch)
        played = bandit.predict(X)
        assert isinstance(played, np.ndarray) and played.shape == (6,) and set(played.tolist()) <= set(range(ARMS))
        reward = X[np.arange(6), played, 0]
        assert bandit.partial_fit(X, played, reward) is bandit
        status = bandit.status()
        # Each round is one decision with one feedback: none was asked about twice.
        assert (status.round, status.feedbacks, status.pending_decisions) == (6 * (batch + 1), 6 * (batch + 1), 0)


@pytest.mark.parametrize("kind", ["encrypted", "clear"])
def test_online_learning_on_an_event_loop(server: Server, client: helba.Client, keys: helba.Keys, kind: str) -> None:
    """The same rounds, awaited, on a bandit that takes its place in a loop beside another user's decisions."""
    bandit_id = make(client, kind).bandit_id

    async def learn() -> None:
        async with helba.aio.Client(server.url, keys) as loop_client:
            bandit = await loop_client.bandit(bandit_id)
            X = some(6)
            played, other = await asyncio.gather(bandit.predict(X), bandit.decide(some(1, 9)[0]))
            assert isinstance(played, np.ndarray) and played.shape == (6,) and set(played.tolist()) <= set(range(ARMS))
            assert await bandit.partial_fit(X, played, X[np.arange(6), played, 0]) is bandit
            status = await bandit.status()
            assert (status.round, status.feedbacks, status.pending_decisions) == (7, 6, 1)
            await bandit.feedback(other, 0.5)
            if kind == "encrypted":
                # Rounds that somebody else has played are asked about first.
                await bandit.partial_fit(X, 1 - played, [0.1] * 6)
                assert (await bandit.status()).feedbacks == 13
            else:
                with pytest.raises(helba.ArgumentError, match="round 0: predict has not returned this arm"):
                    await bandit.partial_fit(X, played, [0.1] * 6)
                assert (await bandit.status()).feedbacks == 7
            with pytest.raises(helba.ArgumentError, match="X has 6 rounds, arm 1 and reward 1 values"):
                await bandit.partial_fit(X, [0], [0])

    asyncio.run(learn())


def test_a_clear_bandit_learns_which_arm_pays(client: helba.Client) -> None:
    bandit = make(client, "clear")
    X = some(200)
    for start in range(0, 200, 10):
        part = X[start : start + 10]
        played = bandit.predict(part)
        bandit.partial_fit(part, played, part[np.arange(10), played, 0])
    fresh = some(60, 11)
    best = fresh[:, :, 0].argmax(axis=1)
    assert (bandit.predict(fresh) == best).mean() > 0.7


def test_an_encrypted_bandit_learns_from_what_others_played(client: helba.Client) -> None:
    bandit = make(client, "encrypted")
    X, arms, rewards = some(8), [0, 1] * 4, [0.5, -0.5] * 4
    bandit.partial_fit(X, np.array(arms, dtype=float), pandas.Series(rewards))
    assert bandit.status().feedbacks == 8
    # What predict was asked about is used once, whatever arm was played instead.
    played = bandit.predict(X[:2])
    bandit.partial_fit(X[:2], 1 - played, [0.1, 0.1])
    assert (bandit.status().round, bandit.status().feedbacks) == (10, 10)
    bandit.partial_fit(X[:2], 1 - played, [0.1, 0.1])
    assert (bandit.status().round, bandit.status().feedbacks) == (12, 12)


def test_a_clear_policy_learns_about_its_own_choice_alone(client: helba.Client) -> None:
    bandit = make(client, "clear")
    X = some(3)
    played = bandit.predict(X)
    other = played.copy()
    other[1] = 1 - other[1]
    with pytest.raises(helba.ArgumentError, match="round 1: predict has not returned this arm"):
        bandit.partial_fit(X, other, [0, 0, 0])
    # Nothing was learnt, and nothing forgotten.
    assert bandit.status().feedbacks == 0
    bandit.partial_fit(X, played, [0, 0, 0])
    assert bandit.status().feedbacks == 3
    with pytest.raises(helba.ArgumentError, match="round 0: predict has not returned"):
        bandit.partial_fit(X, played, [0, 0, 0])


def test_features_that_all_arms_share(client: helba.Client) -> None:
    """A matrix of rounds x features: each arm learns on its own."""
    from helba._learning import rounds_of

    bandit = make(client, "clear")
    X = np.array([[0.5, -0.25], [0.0, 1.0]])
    want = [[[0.5, -0.25, 0, 0], [0, 0, 0.5, -0.25]], [[0, 1, 0, 0], [0, 0, 0, 1]]]
    for given in (X, X.tolist(), pandas.DataFrame(X), polars.DataFrame({"a": X[:, 0], "b": X[:, 1]})):
        assert rounds_of(bandit, given) == want
    wide = some(2)
    assert rounds_of(bandit, wide) == wide.tolist() == rounds_of(bandit, [pandas.DataFrame(one) for one in wide])
    assert len(bandit.predict(pandas.DataFrame(X))) == 2
    free = client.create(policy="ucb1", arms=3)
    played = free.predict([[0], [0], [0]])
    free.partial_fit([[0], [0], [0]], played, [1, 0, 1])
    assert free.status().feedbacks == 3


@pytest.mark.parametrize("kind", ["encrypted", "clear"])
@pytest.mark.parametrize(
    ("X", "arm", "reward", "says"),
    [
        (some(2), [0], [0, 0], "X has 2 rounds, arm 1 and reward 2 values"),
        (some(2), [0, 2], [0, 0], "the arm of round 1 is 2, and arms are numbered from 0 to 1"),
        (some(2), [0, "b"], [0, 0], "the arm of round 1 is 'b'"),
        (some(2), [0, 0.5], [0, 0], "the arm of round 1 is 0.5"),
        (some(2), [0, 0], [0, None], "the reward is a NoneType"),
        (some(2), 0, [0, 0], "arm is a int: give one value for each round"),
        (some(2)[0], [0, 0], [0, 0], "round 0 of X: it has 4 numbers: give 2 rows of 4 features, one for each arm, or 2"),
        (some(2)[0, 0], [0], [0], "X has 1 dimensions"),
        (some(2)[:, :1], [0, 0], [0, 0], "round 0 of X: it must have 2 rows of 4 features"),
        (np.where(some(2) > 0.3, np.nan, some(2)), [0, 0], [0, 0], "round 1 of X: feature 3 of arm 1 is not a finite number"),
        ("text", [0], [0], "the rounds of X are a str"),
        (some(2) * 1j, [0, 0], [0, 0], "convert them to real numbers"),
    ],
)
def test_misuse_sends_nothing(client: helba.Client, kind: str, X: Any, arm: Any, reward: Any, says: str) -> None:
    bandit = make(client, kind)
    with pytest.raises(helba.ArgumentError) as refused:
        bandit.partial_fit(X, arm, reward)
    assert says in str(refused.value)
    assert bandit.status().round == 0


def test_rewards_of_an_encrypted_bandit_are_bounded_before_anything_is_sent(encrypted: helba.Bandit) -> None:
    before = encrypted.status().round
    with pytest.raises(helba.ArgumentError, match="round 1 is outside of -1 to 1"):
        encrypted.partial_fit(some(2), [0, 0], [0.5, 1.5])
    assert encrypted.status().round == before


def test_a_data_frame_has_a_row_for_each_arm(encrypted: helba.Bandit) -> None:
    rows = some(1)[0]
    for frame in (pandas.DataFrame(rows), polars.DataFrame(rows)):
        assert encrypted.decide(frame).reliable
    for frame in (pandas.DataFrame({"a": ["x", "y"]}), polars.DataFrame({"a": ["x", "y"]})):
        with pytest.raises(helba.ContextsError, match="feature 0 of arm 0 is a str: give a real number"):
            encrypted.decide(frame)
    with pytest.raises(helba.ContextsError, match="the contexts are a data frame: helba.Rounds.of"):
        encrypted.replay(pandas.DataFrame(rows), [[0, 1]])


def test_epsilon_draws_arms_with_the_probabilities_that_are_said(encrypted: helba.Bandit, keys: helba.Keys) -> None:
    """With epsilon 1 of 60 decisions all play one arm with probability 2^-59."""
    rows = [[0.9, 0.1, 0, 0.2], [0.1, 0, 0.1, 0]]
    made = encrypted.decide_many([rows] * 60, epsilon=1)
    assert {decision.arm for decision in made} == {0, 1}
    assert {decision.probability for decision in made} == {0.5} and len({one.chosen for one in made}) == 1
    for epsilon in (0, 0.2):
        decision = encrypted.decide(rows, epsilon=epsilon)
        own = 1 - epsilon / 2 if decision.arm == decision.chosen else epsilon / 2
        assert decision.probability == pytest.approx(own)
    # The reward is that of the arm that was drawn, also after the decision was stored.
    other = next(decision for decision in made if decision.arm != decision.chosen)
    stored = helba.Decision.from_bytes(other.to_bytes(keys), keys)
    assert (stored.arm, stored.chosen, stored.probability) == (other.arm, None, None)
    assert encrypted.feedback(stored, 0.5).feedbacks > 0


@pytest.mark.parametrize("epsilon", [-0.1, 1.5, float("nan"), "1", None])
def test_epsilon_is_a_probability(encrypted: helba.Bandit, epsilon: Any) -> None:
    with pytest.raises(helba.ArgumentError, match="epsilon"):
        encrypted.decide(some(1)[0], epsilon=epsilon)


def test_a_clear_policy_draws_itself(clear: helba.Bandit) -> None:
    with pytest.raises(helba.ArgumentError, match="leave epsilon out"):
        clear.decide(some(1)[0], epsilon=0.1)
    decision = clear.decide(some(1)[0])
    assert (decision.chosen, decision.probability) == (decision.arm, None)


def test_the_played_arm_is_the_one_that_is_learnt(client: helba.Client) -> None:
    """Counters of all devices say which arm a feedback was about."""
    bandit = make(client, "encrypted", answers="scores", open_model=True, counters={"every": 20})
    rows = some(1)[0]
    made = bandit.decide_many([rows] * 20, epsilon=1)
    for decision in made:
        bandit.feedback(decision, 0.25)
    played = [decision.arm for decision in made]
    assert bandit.counters().pulls == tuple(played.count(arm) for arm in range(ARMS))
