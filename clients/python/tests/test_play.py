"""Rounds of both kinds of bandits."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Optional

import helba
import numpy as np
import pytest
from conftest import ARMS, FEATURES, ROOT, Bundles, Server, run

WIDE = [[0.9, 0.1, 0.0, 0.2], [0.1, 0.0, 0.1, 0.0]]


def script(page: Path) -> str:
    """The script `ten.py` of a page, which is its first block of Python with `import helba`."""
    blocks = page.read_text().split("```python\n")[1:]
    return next(code for code in (block.split("```")[0] for block in blocks) if "import helba" in code)


def test_the_readmes_print_the_same_script() -> None:
    assert script(ROOT / "README.md") == script(ROOT / "clients" / "python" / "README.md")


def test_the_script_plays_an_encrypted_and_a_clear_bandit(tmp_path: Path) -> None:
    bundles = Bundles(tmp_path, 7, 4)
    server = Server(tmp_path / "state", "--keys", bundles.public)
    (tmp_path / "ten.py").write_text(script(ROOT / "README.md"))
    try:
        for more in ([bundles.secret], []):
            command = [sys.executable, str(tmp_path / "ten.py"), server.url, *map(str, more)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            lines = done.stdout.splitlines()
            assert done.returncode == 0 and len(lines) == 10, done.stderr
            assert all(line.split()[0] in "0123" for line in lines)
            assert "feedbacks=10" in lines[-1], lines[-1]
        made = helba.Client(server.url, helba.Keys.open(bundles.secret)).bandits()
        assert sorted(bandit.encrypted for bandit in made) == [False, True]
    finally:
        server.kill()


def test_logged_rounds_are_learnt_once(client: helba.Client) -> None:
    bandit = client.create(features=FEATURES, arms=ARMS, horizon=1000)
    generator = random.Random(7)
    rows = [[[generator.uniform(-0.5, 0.5) for _ in range(FEATURES)] for _ in range(ARMS)] for _ in range(120)]
    arms = [generator.randrange(ARMS) for _ in rows]
    played = [row[arm] for row, arm in zip(rows, arms)]
    rewards = [row[0] for row in played]
    learnt = bandit.learn(rows, arms, rewards, name="history")
    assert (learnt.name, learnt.rounds, learnt.feedbacks, learnt.model_feedbacks) == ("history", 120, 120, 120)
    assert not learnt.erasable
    # Rows of the arm that was played are the same rounds.
    assert bandit.learn(played, arms, rewards, name="history") == learnt
    status = bandit.status()
    assert (status.round, status.feedbacks, status.pending_decisions) == (120, 120, 0)
    rest = [0.0] * (FEATURES - 1)
    assert bandit.decide([[0.9 if arm == 1 else -0.9, *rest] for arm in range(ARMS)]).arm == 1
    for contexts, picked, earned in [
        (rows, arms[1:], rewards),
        (rows, [ARMS] * 120, rewards),
        (rows, ["left"] * 120, rewards),
        (rows, [-1] * 120, rewards),
        (rows, arms, ["much"] * 120),
        (rows, arms, [2.0] * 120),
        ([[float("nan")] * FEATURES] * 120, arms, rewards),
        ([[0.1] * (FEATURES + 1)] * 120, arms, rewards),
    ]:
        with pytest.raises(helba.Error):
            bandit.learn(contexts, picked, earned)
    assert bandit.status().feedbacks == 120
    with pytest.raises(helba.ArgumentError, match="clear policy"):
        client.create(policy="oful", features=FEATURES, arms=ARMS).learn(rows, arms, rewards)


@pytest.mark.parametrize("kind", ["encrypted", "clear"])
def test_a_round(client: helba.Client, kind: str) -> None:
    policy = "oful" if kind == "clear" else None
    bandit = client.create(features=FEATURES, arms=ARMS, policy=policy)
    assert bandit.encrypted == (kind == "encrypted") and bandit.bandit_id in repr(bandit)
    decision = bandit.decide(WIDE)
    assert decision.arm in range(ARMS) and decision.reliable and decision.round == 1
    assert len(decision.decision_id) == 32 and decision.bandit_id == bandit.bandit_id
    assert bandit.status().pending_decisions == 1
    receipt = bandit.feedback(decision, 0.5)
    assert receipt == helba.Counted(decision.decision_id, 1)
    # The same feedback counts once, and another one is refused.
    assert bandit.feedback(decision, 0.5).feedbacks == 1
    with pytest.raises(helba.ConflictError) as refused:
        bandit.feedback(decision, -0.5)
    assert refused.value.code == "answered" and refused.value.code in helba.PROBLEMS
    status = client.bandit(bandit.bandit_id).status()
    assert (status.round, status.feedbacks, status.pending_decisions) == (1, 1, 0)
    if bandit.encrypted:
        assert bandit.erase(decision.decision_id) == bandit.erase(decision.decision_id)
    else:
        with pytest.raises(helba.Error):
            bandit.erase(decision.decision_id)
    assert bandit.bandit_id in [one.bandit_id for one in client.bandits()]
    bandit.delete()
    with pytest.raises(helba.NotFoundError, match="unknown_bandit"):
        bandit.status()
    with pytest.raises(helba.NotFoundError):
        bandit.decide(WIDE)


def test_a_frozen_bandit_decides_and_learns_nothing(client: helba.Client) -> None:
    bandit = client.create(features=FEATURES, arms=ARMS)
    bandit.freeze()
    decision = bandit.decide(WIDE)
    with pytest.raises(helba.ConflictError) as refused:
        bandit.feedback(decision, 0.5)
    assert refused.value.code == "frozen" and refused.value.code in helba.PROBLEMS
    assert bandit.status().feedbacks == 0 and bandit.status().details["status"]["frozen"]
    bandit.thaw()
    assert bandit.feedback(decision, 0.5).feedbacks == 1
    with pytest.raises(helba.ConflictError, match="policy in the clear, and no such bandit is frozen"):
        client.create(policy="ucb1", arms=2).freeze()


def test_closed_arms_are_not_played(encrypted: helba.Bandit, clear: helba.Bandit) -> None:
    for bandit in (encrypted, clear):
        for arm in (0, 1):
            rows: list[Optional[list[float]]] = [[0.5, 0.25, 0.0, 0.0], [0.0, 0.5, 0.25, 0.0]]
            rows[1 - arm] = None
            decision = bandit.decide(rows, epsilon=1.0 if bandit.encrypted else 0.0)
            assert decision.arm == arm
            if bandit.encrypted:
                assert decision.probability == 1.0
                with pytest.raises(helba.ArgumentError, match="its arm is closed"):
                    bandit.feedback(decision, 0.5, arm=1 - arm)
            bandit.feedback(decision, 0.5)


def test_a_model_is_exported(client: helba.Client) -> None:
    bandit = client.create(features=FEATURES, arms=ARMS)
    model = bandit.export()
    assert (model["bandit"], model["feedbacks"], len(model["omega"])) == (bandit.bandit_id, 0, FEATURES)
    for i, row in enumerate(model["inverse"]):
        assert all(abs(entry - (i == j)) < 1e-4 for j, entry in enumerate(row))
    assert bandit.export() == model
    with pytest.raises(helba.Error):
        client.create(policy="ucb1", arms=2).export()


def test_a_copy_learns_by_itself(client: helba.Client) -> None:
    bandit = client.create(features=FEATURES, arms=ARMS)
    decision = bandit.decide(WIDE)
    bandit.feedback(decision, 0.5)
    copy = bandit.copy(name="second", alpha=0.1)
    assert copy.created["origin"] == bandit.bandit_id and copy.labels.name == "second"
    assert copy.created["config"]["linear"]["width"]["tangent"]["alpha"] == 0.1
    assert (copy.status().feedbacks, copy.status().pending_decisions) == (1, 0)
    copy.feedback(copy.decide(WIDE), 0.25)
    assert (copy.status().feedbacks, bandit.status().feedbacks) == (2, 1)
    bandit.erase(decision.decision_id)
    with pytest.raises(helba.RefusedError, match="linear.lambda.*as in the original"):
        bandit.copy(lambda_=2.0)
    with pytest.raises(helba.ArgumentError, match="is not copied"):
        client.create(policy="ucb1", arms=2).copy()


def test_configurations_are_passed_on(client: helba.Client) -> None:
    bandit = client.create(features=4, arms=2, lambda_=2.0, alpha=0.25, horizon=500, schedule={"every": {"rounds": 8}})
    config = bandit.created["config"]
    assert config["horizon"] == 500 and config["linear"]["lambda"] == 2.0
    assert config["linear"]["width"] == {"tangent": {"alpha": 0.25, "floor": 1 / 64}}
    assert config["linear"]["schedule"] == {"every": {"rounds": 8}}
    # Half of the range of rewards, in units of lambda.
    ranged = client.create(features=4, arms=2, lambda_=2.0, rewards=(-1, 1)).created["config"]["linear"]
    assert ranged["width"] == {"tangent": {"alpha": 2.0, "floor": 1 / 64}}
    with pytest.warns(UserWarning, match="can lock in on one arm.*take the width tangent, or an alpha of 1.000"):
        root = client.create(features=4, arms=2, width="root", alpha=0.5).created["config"]["linear"]
    assert root["width"] == {"constant": {"alpha": 0.5}}
    with pytest.raises(helba.ArgumentError, match="rewards.*from −1 to 1"):
        client.create(features=4, arms=2, rewards=(0, 50))
    with pytest.raises(helba.ArgumentError, match="no parameter alhpa; it has alpha, answers"):
        client.create(features=4, arms=2, alhpa=0.25)
    with pytest.raises(helba.RefusedError, match="horizon") as refused:
        client.create(features=4, arms=2, horizon=0)
    assert refused.value.status in (400, 422)
    with pytest.raises(helba.RefusedError, match="keys"):
        client.create(features=9, arms=2)
    with pytest.raises(helba.ArgumentError, match="features=7"):
        client.create(arms=2)
    policy = client.create(policy="ucb1", arms=3)
    assert policy.created["parameters"] == {"arms": 3} and policy.decide().arm in range(3)
    assert "ucb1" in [card["policy"] for card in client.policies()]


def test_the_open_tier(client: helba.Client) -> None:
    bandit = client.create(features=FEATURES, arms=ARMS, answers="scores", open_model=True)
    decision = bandit.decide(WIDE)
    assert bandit.feedback(decision, 1).feedbacks == 1
    assert "compute the model" in bandit.created["label"]


def test_counters_are_those_of_all_devices(client: helba.Client) -> None:
    bandit = client.create(
        features=FEATURES, arms=ARMS, answers="scores", open_model=True, counters={"every": 10}
    )
    pulls, rewards = [0] * ARMS, [0.0] * ARMS
    for visit in range(11):
        decision = bandit.decide(WIDE)
        arm = visit % ARMS
        bandit.feedback(decision, 0.25, arm=arm)
        if visit < 10:
            pulls[arm] += 1
            rewards[arm] += 0.25
        if visit == 8:
            assert bandit.counters().feedbacks == 0
    counters = bandit.counters()
    assert (counters.feedbacks, counters.deviation) == (10, 0)
    assert (counters.pulls, counters.rewards) == (tuple(pulls), tuple(rewards))
    assert set(counters.means) == {0.25}
    with pytest.raises(helba.ConflictError):
        client.create(features=FEATURES, arms=ARMS).counters()


def test_the_arm_is_that_of_the_device(
    client: helba.Client, server: Server, bundles: Bundles, tmp_path: Path
) -> None:
    """The program helba-client plays the same bandit with the device of Rust. Without feedback the model of
    both is the same, and an arm that is much longer than the other has the larger index."""
    bandit = client.create(features=FEATURES, arms=ARMS)
    rng = np.random.default_rng(1)
    for at in range(4):
        contexts = 0.05 * rng.standard_normal((ARMS, FEATURES))
        contexts[at // 2] = 0.45 + 0.05 * rng.random(FEATURES)
        file = tmp_path / f"{at}.csv"
        np.savetxt(file, contexts, delimiter=",")
        common = ("--server", server.url, "--secret", bundles.secret, "--toy")
        by_device = run("helba-client", "decide", *common, "--bandit", bandit.bandit_id, "--contexts", file)
        assert bandit.decide(contexts).arm == int(by_device) == at // 2


def test_several_decisions_share_a_request(encrypted: helba.Bandit, clear: helba.Bandit) -> None:
    swapped = [WIDE, WIDE[::-1], WIDE, WIDE[::-1], WIDE]
    decisions = encrypted.decide_many(swapped)
    assert [decision.users for decision in decisions] == [5] * 5
    assert len({decision.decision_id for decision in decisions}) == 5
    counted = [encrypted.feedback(decision, 0.1).feedbacks for decision in decisions]
    assert counted == list(range(counted[0], counted[0] + 5))
    assert [decision.arm in range(ARMS) for decision in clear.decide_many(swapped)] == [True] * 5
    # More than one request takes.
    many = encrypted.decide_many(swapped * 30)
    assert len(many) == 150 and len({decision.decision_id for decision in many}) == 150
    assert encrypted.decide_many([]) == []


def test_another_arm_may_be_played(encrypted: helba.Bandit) -> None:
    decision = encrypted.decide(WIDE)
    with pytest.raises(helba.ArgumentError, match="numbered from 0 to 1"):
        encrypted.feedback(decision, 0.5, arm=2)
    assert encrypted.feedback(decision, 0.5, arm=1 - decision.arm).feedbacks > 0


@pytest.mark.parametrize("kind", ["encrypted", "clear"])
def test_recorded_rounds(client: helba.Client, kind: str) -> None:
    """A bandit learns which arm pays: in each round the reward is the first feature."""
    bandit = client.create(
        features=FEATURES, arms=ARMS, policy="oful" if kind == "clear" else None, alpha=0.1
    )
    rng = np.random.default_rng(2)
    contexts = rng.uniform(-0.4, 0.4, (24, ARMS, FEATURES))
    rewards = contexts[:, :, 0]
    replay = bandit.replay(contexts, rewards, progress=True)
    assert replay.rounds == 24 and len(replay.arms) == 24 and replay.unreliable == 0
    assert replay.hits == sum(rewards[t].argmax() == arm for t, arm in enumerate(replay.arms))
    assert replay.reward == pytest.approx(sum(rewards[t][arm] for t, arm in enumerate(replay.arms)))
    assert replay.hit_rate == replay.hits / 24
    assert bandit.status().feedbacks == 24
    with pytest.raises(helba.ContextsError, match="as many of each"):
        bandit.replay(contexts, rewards[1:])
    with pytest.raises(helba.ContextsError, match="round 0 has 2 arms and 1 rewards"):
        bandit.replay(contexts, rewards[:, :1])
    with pytest.raises(helba.ContextsError, match="the rewards have 3 dimensions"):
        bandit.replay(contexts, contexts)


@pytest.mark.parametrize("kind", ["encrypted", "clear"])
def test_names_and_tags(client: helba.Client, kind: str) -> None:
    policy = "oful" if kind == "clear" else None
    bandit = client.create(features=FEATURES, arms=ARMS, policy=policy, name=f"Käse {kind}", tags=["live", kind])
    assert bandit.labels == helba.Labels(f"Käse {kind}", ("live", kind))
    assert client.bandit(bandit.bandit_id).labels == bandit.labels
    assert [one.bandit_id for one in client.bandits(tag=kind, name=f"Käse {kind}")] == [bandit.bandit_id]
    assert client.bandits(tag="none") == []
    assert bandit.label(name=None) == helba.Labels(None, ("live", kind)) == bandit.labels
    assert bandit.label(name="a", tags=None) == helba.Labels("a", ())
    # A decision goes on after the labels have changed.
    bandit.decide(WIDE)
    with pytest.raises(helba.ArgumentError, match="give what changes"):
        bandit.label()
    with pytest.raises(helba.ArgumentError, match="a list of texts"):
        bandit.label(tags="live")
    with pytest.raises(helba.RefusedError) as refused:
        bandit.label(name="a\nb")
    assert refused.value.status == 422
