"""Bandits that a committee computes: real members, a server, and users with sessions."""

from __future__ import annotations

import asyncio
import re
import stat
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import helba
import helba.aio
import pytest
from conftest import PROGRAMS, Server, run
from test_errors import Recorder, _forms

ROWS = [[0.9, 0.1], [0.1, 0.9]]
MEMBERS = (1, 2, 3)


def member(*arguments: object) -> subprocess.Popen[str]:
    command = [str(PROGRAMS / "helba-member"), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def kill(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.kill()
        process.wait()


class Committee:
    """Three members with keys of their own, of whom two know everything together, and their server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        cards = [folder / f"{j}.card" for j in MEMBERS]
        for j, card in zip(MEMBERS, cards):
            card.write_text(run("helba-member", "identity", "--out", folder / f"{j}.identity"))
        proposal = folder / "proposal"
        run("helba-member", "propose", "--threshold", 2, "--out", proposal, *cards)
        board = member("board", "--proposal", proposal, "--listen", "127.0.0.1:0")
        assert board.stdout is not None
        url = f"http://{board.stdout.readline().split()[-1]}"
        common = ("--proposal", proposal, "--board", url)
        made = [
            member("keygen", *common, "--identity", folder / f"{j}.identity", "--out", folder / str(j))
            for j in MEMBERS
        ]
        printed = [process.communicate(timeout=120)[0] for process in made]
        assert all(process.returncode == 0 for process in made), printed
        kill(board)
        (self.id,) = {re.findall("committee ([0-9a-f]{64}) ", text)[0] for text in printed}
        self.members: list[subprocess.Popen[str]] = []
        self.start("127.0.0.1:0")

    def start(self, listen: str) -> None:
        self.server = Server(
            self.folder / "state", "--committee", self.folder / "1" / "committee.manifest", listen=listen
        )
        self.serve()

    def serve(self) -> None:
        self.members = [
            member("serve", "--server", self.server.url, "--keys", self.folder / str(j), "--identity", f"{self.folder / str(j)}.identity")
            for j in MEMBERS
        ]

    def stop(self) -> None:
        kill(*self.members)
        self.server.kill()

    def restart(self) -> None:
        self.stop()
        self.start(self.server.address)


@pytest.fixture(scope="module")
def committee(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Committee]:
    committee = Committee(tmp_path_factory.mktemp("committee"))
    yield committee
    committee.stop()


def wait_for(bandit: helba.Bandit, updates: int) -> None:
    until = time.monotonic() + 60
    while bandit.status().details["updates"] < updates:
        assert time.monotonic() < until, bandit.status().details
        time.sleep(0.05)


def test_two_users_learn_through_a_restart(committee: Committee, tmp_path: Path) -> None:
    url, file = committee.server.url, tmp_path / "my.session"
    first = helba.Client(url, committee=committee.id, session=file, patience=60)
    second = helba.Client(url, committee=committee.id, patience=60)
    bandit = first.create(features=2, arms=2, sessions=1, alpha=0.5, schedule={"every": {"rounds": 4}}, name="a shop")
    assert (bandit.encrypted, bandit.committee) == (True, committee.id) and "committee" in repr(bandit)
    assert not file.exists()
    others = second.bandit(bandit.bandit_id)
    assert others.created == bandit.created and others.created["config"]["linear"]["d"] == 2
    schema = {"layout": "dsjson", "candidate": {"tea": "none", "juice": "none"}, "reward_range": [-50, 50]}
    offered = [{"tea": 0.9, "juice": 0.1}, {"tea": 0.1, "juice": 0.9}]
    transform = helba.Transform.learn(schema, [{"candidates": offered}])
    rows = transform.rows(offered)
    for at in range(8):
        user = (bandit, others)[at % 2]
        decision = user.decide(rows)
        assert decision.arm in (0, 1) and decision.reliable and decision.encrypted and decision.details == {}
        assert (decision.chosen, decision.probability, decision.round) == (decision.arm, 1.0, at + 1)
        # By the function that maps the rewards of other bandits too.
        earned = 2 * transform.reward(50 if decision.arm == 1 else -50) - 1
        assert user.feedback(decision, earned) == helba.Counted(decision.decision_id, at + 1)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    wait_for(bandit, 2)
    # A decision waits while all programs start again.
    waits = bandit.decide(rows)
    stored = waits.to_bytes()
    assert not any(repr(value).encode() in stored for row in rows for value in row)
    committee.restart()
    again = helba.Client(url, session=file, patience=60)
    assert again.session_bytes() == first.session_bytes() != second.session_bytes()
    known = again.bandit(bandit.bandit_id)
    decision = helba.Decision.from_bytes(stored)
    assert (decision.arm, decision.round, decision.bandit_id) == (1, 9, bandit.bandit_id)
    assert known.feedback(decision, 1.0).feedbacks == 9
    # The same feedback counts once, and another one is refused.
    assert known.feedback(decision, 1).feedbacks == 9
    with pytest.raises(helba.ConflictError, match="answered"):
        known.feedback(decision, 0.5)
    copied = helba.Client(url, session=again.session_bytes(), patience=60).bandit(bandit.bandit_id)
    with pytest.raises(helba.NotFoundError, match="another feedback"):
        copied.feedback(helba.Decision.from_bytes(stored), 0.5)
    # It is erased by its own session.
    assert known.erase(decision.decision_id) == ""
    assert bandit.status().feedbacks == 8
    made = known.decide_many([rows] * 20)
    assert [one.arm for one in made] == [1] * 20 and len({one.decision_id for one in made}) == 20
    assert list(known.predict([rows, rows])) == [1, 1]
    known.partial_fit([rows, rows], [1, 1], [1.0, 0.5])
    status = known.status()
    assert (status.round, status.feedbacks, status.pending_decisions) == (31, 10, 20)
    assert [one.bandit_id for one in again.bandits(name="a shop")] == [bandit.bandit_id]
    known.delete()
    with pytest.raises(helba.NotFoundError, match="unknown_bandit"):
        known.status()


def test_users_of_an_event_loop(committee: Committee) -> None:
    async def play() -> None:
        async with helba.aio.Client(committee.server.url, committee=committee.id, patience=60) as client:
            bandit = await client.create(features=2, arms=2, sessions=1)
            assert bandit.committee == committee.id
            made = await asyncio.gather(*(bandit.decide(ROWS) for _ in range(12)))
            counted = await asyncio.gather(*(bandit.feedback(one, 0.5) for one in made))
            assert {one.decision_id for one in counted} == {one.decision_id for one in made}
            assert (await bandit.status()).feedbacks == 12
            assert list(await bandit.predict([ROWS])) in ([0], [1])
            assert len(await client.session_bytes()) == 96
            assert await bandit.erase(made[0].decision_id) == ""

    asyncio.run(play())


def test_counters_are_what_was_played(committee: Committee) -> None:
    client = helba.Client(committee.server.url, committee=committee.id, patience=60)
    bandit = client.create(features=2, arms=2, sessions=1, counters={"every": 10})
    assert bandit.counters() == helba.Counters(0, (0.0, 0.0), (0.0, 0.0), 0.0)
    pulls, rewards, played = [0.0, 0.0], [0.0, 0.0], []
    for number in range(60):
        decision = bandit.decide(ROWS)
        bandit.feedback(decision, number / 64)
        pulls[decision.arm] += 1
        rewards[decision.arm] += number / 64
        played.append(helba.Counters(number + 1, tuple(pulls), tuple(rewards), 0.0))
        # Members open a group a moment after it is whole.
        if (counted := bandit.counters()).feedbacks:
            break
    assert counted.feedbacks >= 10 and counted == played[counted.feedbacks - 1]


def test_who_waits_for_members_is_told(committee: Committee, caplog: pytest.LogCaptureFixture) -> None:
    bandit = helba.Client(committee.server.url, committee=committee.id, patience=60).create(features=2, arms=2, sessions=1)
    bandit.decide(ROWS)
    kill(*committee.members)
    with ThreadPoolExecutor(1) as pool:
        decides = pool.submit(bandit.decide, ROWS)
        until = time.monotonic() + 60
        while "waits for members: 0 of the committee are here, and 3 are needed" not in caplog.messages:
            assert time.monotonic() < until, caplog.messages
            time.sleep(0.1)
        committee.serve()
        assert decides.result().arm in (0, 1)


def test_rewards_outside_the_range_are_refused(committee: Committee) -> None:
    client = helba.Client(committee.server.url, committee=committee.id, patience=60)
    bandit = client.create(features=2, arms=2, sessions=1, rewards=(0, 0.5))
    assert client.bandit(bandit.bandit_id).created == bandit.created and bandit.created["rewards"] == [0, 0.5]
    # Its alpha follows as that of a bandit under keys does.
    wide = client.create(features=2, arms=2, sessions=1)
    assert bandit.created["config"]["linear"]["width"] != wide.created["config"]["linear"]["width"]
    decision = bandit.decide(ROWS)
    for reward in (-0.25, 0.75):
        with pytest.raises(helba.ArgumentError, match="from 0 to 0.5"):
            bandit.feedback(decision, reward)
    assert bandit.feedback(decision, 0.5).feedbacks == 1
    assert "rewards" not in wide.created
    assert wide.feedback(wide.decide(ROWS), -0.25).feedbacks == 1
    with pytest.raises(helba.ArgumentError, match="the least and the largest reward"):
        client.create(features=2, arms=2, rewards=(0, 5))


def test_another_committee_is_refused(committee: Committee, tmp_path: Path) -> None:
    url, other = committee.server.url, "7" * 64
    client = helba.Client(url, committee=committee.id, patience=60)
    bandit_id = client.create(features=2, arms=2, sessions=1).bandit_id
    file = tmp_path / "other.session"
    with pytest.raises(helba.KeysError, match=f"has the committee {committee.id}, and {other} was named"):
        helba.Client(url, committee=other, session=file, patience=0).bandit(bandit_id).decide(ROWS)
    assert not file.exists()
    kept = client.session_bytes()
    with pytest.raises(helba.KeysError, match="was named"):
        helba.Client(url, committee=other, session=kept, patience=0).bandit(bandit_id).decide(ROWS)
    with pytest.raises(helba.KeysError, match="was named"):
        helba.Client(url, session=bytes(32) + kept[32:], patience=0).bandit(bandit_id).decide(ROWS)
    before = len(client.bandits())
    with pytest.raises(helba.KeysError, match="was named"):
        helba.Client(url, committee=other, patience=0).create(features=2, arms=2)
    assert len(client.bandits()) == before


def test_what_is_no_session(committee: Committee, tmp_path: Path) -> None:
    url = committee.server.url
    with pytest.raises(helba.ArgumentError, match="64 hexadecimal digits"):
        helba.Client(url, committee="shop")
    with pytest.raises(helba.KeysError, match="session_bytes"):
        helba.Client(url, session=b"short")
    bandit_id = helba.Client(url, committee=committee.id).create(features=2, arms=2).bandit_id
    file = tmp_path / "my.session"
    with pytest.raises(helba.KeysError, match="my.session has no session.*the committee's id"):
        helba.Client(url, session=file, patience=0).bandit(bandit_id).decide(ROWS)
    file.write_bytes(b"short")
    file.chmod(0o600)
    with pytest.raises(helba.KeysError, match="my.session has no session"):
        helba.Client(url, committee=committee.id, session=file, patience=0).bandit(bandit_id).decide(ROWS)
    file.chmod(0o644)
    with pytest.raises(helba.KeysError, match="chmod 600"):
        helba.Client(url, committee=committee.id, session=file, patience=0).bandit(bandit_id).decide(ROWS)
    with pytest.raises(helba.KeysError, match="open the client with the committee's id"):
        helba.Client(url).bandit(bandit_id).decide(ROWS)
    with pytest.raises(helba.KeysError, match="no session"):
        helba.Client(url).session_bytes()


def test_what_a_committee_does_not_do_is_refused_by_name(committee: Committee) -> None:
    client = helba.Client(committee.server.url, committee=committee.id, patience=60)
    for name, value in {
        "horizon": 500,
        "unanswered": 2,
        "answers": "scores",
        "open_model": True,
    }.items():
        with pytest.raises(helba.ArgumentError, match=f"has no {name}, since .*: leave {name} out"):
            client.create(features=2, arms=2, **{name: value})
    with pytest.raises(helba.RefusedError, match="schedule depends on data; take growth_or_every"):
        client.create(features=2, arms=2, schedule="trace_or_growth")
    with pytest.raises(helba.ArgumentError, match="sessions is 0"):
        client.create(features=2, arms=2, sessions=0)
    bandit = client.create(features=2, arms=2, sessions=1)
    with pytest.raises(helba.ArgumentError, match="leave epsilon out"):
        bandit.decide(ROWS, epsilon=0.1)
    with pytest.raises(helba.RefusedError, match="has no counters"):
        bandit.counters()
    with pytest.raises(helba.RefusedError, match=r"counters\.rho .*: a bandit of a committee has none"):
        client.create(features=2, arms=2, counters={"rho": 0.5})
    with pytest.raises(helba.ArgumentError, match="helba-client committee learn"):
        bandit.learn([ROWS], [0], [1.0])
    with pytest.raises(helba.ArgumentError, match="a bandit of a committee learns about the arm that it chose"):
        bandit.partial_fit([ROWS], [0], [1.0])
    for contexts, match in [
        ([[0.9, 0.1]], "2 arms"),
        ([[0.9], [0.1]], "arm 0 has 1 features"),
        ([[2.0, 0.0], [0.0, 0.1]], "norm above 1"),
        ([[float("nan"), 0.0], [0.0, 0.1]], "not a finite number"),
    ]:
        with pytest.raises(helba.ContextsError, match=match):
            bandit.decide(contexts)
    assert bandit.status().round == 0
    decision = bandit.decide(ROWS)
    with pytest.raises(helba.ArgumentError, match="leave arm out"):
        bandit.feedback(decision, 1.0, arm=0)
    with pytest.raises(helba.ArgumentError, match="one reward"):
        bandit.feedback(decision, rewards=[1.0, 0.0])
    with pytest.raises(helba.ArgumentError, match="from -1 to 1|from −1 to 1|between"):
        bandit.feedback(decision, 1.5)
    with pytest.raises(helba.ArgumentError, match="64 hexadecimal digits"):
        bandit.erase("0" * 32)
    assert bandit.feedback(decision, -1.0).feedbacks == 1


def test_attack_nothing_of_a_person_leaves_in_the_clear(committee: Committee) -> None:
    """Whoever reads the line finds no feature and no reward, as text or as a number of eight bytes. The control
    is a clear bandit of the same server, whose features and reward are read there."""
    rows = [[0.123456789, -0.234567891], [0.345678912, 0.456789123]]
    forms = [form for value in [*rows[0], *rows[1], 0.7320508075] for form in _forms(value)]
    shown = {}
    for policy in (None, "oful"):
        line = Recorder(committee.server)
        client = helba.Client(line.url, committee=committee.id, patience=60)
        more = {} if policy else {"sessions": 1}
        bandit = client.create(features=2, arms=2, policy=policy, **more)
        bandit.feedback(bandit.decide(rows), 0.7320508075)
        shown[policy] = sum(form in line.sent for form in forms)
        assert bandit.bandit_id.encode() in line.sent and len(line.sent) > 500
    assert shown == {None: 0, "oful": 5}
