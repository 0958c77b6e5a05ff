"""Threads, event loops and raisers."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

import helba
import pytest
from conftest import ARMS, FEATURES, Bundles, Server

CONTEXTS = [[0.5, 0.1, 0.0, 0.2], [0.1, 0.3, 0.1, 0.0]]


def test_eight_threads_decide_at_once(encrypted: helba.Bandit) -> None:
    """The server evaluates decisions of several users together only if their requests are under way at the
    same time. Meanwhile a ninth thread runs Python."""
    encrypted.decide(CONTEXTS)
    barrier, decisions = threading.Barrier(9), list[helba.Decision]()
    deciding = threading.Event()

    def decide() -> None:
        barrier.wait()
        for _ in range(3):
            decision = encrypted.decide(CONTEXTS)
            decisions.append(decision)
            encrypted.feedback(decision, 0.1)

    threads = [threading.Thread(target=decide) for _ in range(8)]
    for thread in threads:
        thread.start()
    barrier.wait()
    turns = 0
    while any(thread.is_alive() for thread in threads):
        turns += 1
        deciding.wait(0.001)
    for thread in threads:
        thread.join()
    assert len({decision.decision_id for decision in decisions}) == 24
    assert all(decision.reliable for decision in decisions)
    assert max(decision.users or 0 for decision in decisions) > 1
    assert turns > 20


def test_the_lock_is_released(encrypted: helba.Bandit) -> None:
    """While a thread decides, this one counts. It would count nothing during a call that holds the lock."""
    spans: list[tuple[float, float]] = []

    def decide() -> None:
        for _ in range(5):
            began = time.monotonic()
            encrypted.decide(CONTEXTS)
            spans.append((began, time.monotonic()))

    thread = threading.Thread(target=decide)
    ticks: list[float] = []
    thread.start()
    while thread.is_alive():
        ticks.append(time.monotonic())
        time.sleep(0.0005)
    thread.join()
    within = [sum(began < tick < ended for tick in ticks) for began, ended in spans]
    assert min(within) >= 3, within


def test_sixteen_tasks_share_requests(server: Server, keys: helba.Keys) -> None:
    async def play() -> tuple[list[helba.Decision], list[int], int]:
        async with helba.aio.Client(server.url, keys) as client:
            bandit = await client.create(features=FEATURES, arms=ARMS)
            decisions = await asyncio.gather(*(bandit.decide(CONTEXTS) for _ in range(16)))
            counted = await asyncio.gather(*(bandit.feedback(decision, 0.2) for decision in decisions))
            status = await bandit.status()
            assert (await client.bandit(bandit.bandit_id)).encrypted
            assert bandit.bandit_id in [one.bandit_id for one in await client.bandits()]
            await bandit.delete()
            with pytest.raises(helba.NotFoundError):
                await bandit.decide(CONTEXTS)
            return decisions, [receipt.feedbacks for receipt in counted], status.feedbacks

    decisions, counted, feedbacks = asyncio.run(play())
    assert len({decision.decision_id for decision in decisions}) == 16 and feedbacks == 16
    assert sorted(counted)[-1] == 16
    # Those that were asked for in one turn of the loop are in one evaluation.
    assert [decision.users for decision in decisions] == [16] * 16


def test_the_event_loop_goes_on(server: Server, keys: helba.Keys, encrypted: helba.Bandit) -> None:
    async def play() -> tuple[int, float]:
        bandit = await helba.aio.Client(server.url, keys).bandit(encrypted.bandit_id)
        longest, last, ticks = 0.0, time.monotonic(), 0
        deciding = asyncio.ensure_future(asyncio.gather(*(bandit.decide(CONTEXTS) for _ in range(4))))
        while not deciding.done():
            await asyncio.sleep(0.001)
            now = time.monotonic()
            longest, last, ticks = max(longest, now - last), now, ticks + 1
        took = sum(decision.reliable for decision in await deciding)
        assert took == 4
        return ticks, longest

    ticks, longest = asyncio.run(play())
    assert ticks > 10 and longest < 0.5, (ticks, longest)


def test_errors_of_tasks(server: Server, keys: helba.Keys, encrypted: helba.Bandit) -> None:
    async def play() -> None:
        client = helba.aio.Client(server.url, keys)
        bandit = await client.bandit(encrypted.bandit_id)
        good, bad = bandit.decide(CONTEXTS), bandit.decide([[9.0] * 4] * 2)
        decided, refused = await asyncio.gather(good, bad, return_exceptions=True)
        # One that is refused does not keep the other from its decision.
        assert isinstance(decided, helba.Decision) and isinstance(refused, helba.ContextsError)
        several = await bandit.decide_many([CONTEXTS] * 3)
        assert [decision.users for decision in several] == [3] * 3
        # Whoever is cancelled waits no longer, and others go on.
        cancelled = asyncio.ensure_future(bandit.decide(CONTEXTS))
        kept = asyncio.ensure_future(bandit.decide(CONTEXTS))
        await asyncio.sleep(0.005)
        cancelled.cancel()
        assert (await kept).reliable
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(helba.UnreachableError):
            await helba.aio.Client("http://127.0.0.1:9", keys, patience=0).bandits()
        with pytest.raises(helba.KeysError):
            await (await helba.aio.Client(server.url).bandit(encrypted.bandit_id)).decide(CONTEXTS)
        clear = await client.create(policy="oful", features=FEATURES, arms=ARMS)
        decision = await clear.decide(CONTEXTS)
        assert (await clear.feedback(decision, 0.5)).feedbacks == 1
        assert len(await clear.decide_many([CONTEXTS] * 2)) == 2

    asyncio.run(play())


def test_a_raiser_raises(client: helba.Client, caplog: pytest.LogCaptureFixture) -> None:
    bandit = client.create(features=FEATURES, arms=ARMS)
    caplog.set_level(logging.INFO, logger="helba")
    with client.raiser([bandit.bandit_id]) as raiser:
        for _ in range(200):
            # The raiser logs when it has found the server, and answers from then on.
            bandit.feedback(bandit.decide(CONTEXTS), 0.3)
            if any("scores raised" in line for line in caplog.messages):
                break
        assert not raiser.wait(0)
    assert any(f"bandit {bandit.bandit_id}: scores raised" in line for line in caplog.messages), caplog.messages
    assert raiser.wait(0)
    with pytest.raises(helba.ArgumentError, match="waiting"):
        client.raiser(waiting=0).start()


def test_twenty_features_are_decided_in_stages(tmp_path: Path) -> None:
    """A raiser of the owner answers the exchanges of decisions and those of the update after 16 feedbacks."""
    bundles = Bundles(tmp_path, 20, 5, "--toy", "--exchanges", "staged")
    server = Server(tmp_path / "state", "--keys", bundles.public, "--toy")
    features = [[0.9 if column == 3 * arm else 0.05 for column in range(20)] for arm in range(5)]
    try:
        with helba.Client(server.url, helba.Keys.open(bundles.secret, toy=True)) as client:
            bandit = client.create(features=20, arms=5)
            with client.raiser([bandit.bandit_id]):
                for played in [0, 1, 2, 3, 4] * 4:
                    bandit.feedback(bandit.decide(features), float(played == 2), arm=played)
                deadline = time.monotonic() + 60
                while bandit.decide(features).arm != 2 and time.monotonic() < deadline:
                    time.sleep(0.1)
                assert bandit.decide(features).arm == 2
    finally:
        server.kill()


def test_batches_are_learnt_by_a_lone_device(client: helba.Client) -> None:
    """The device answers the tasks that come with its decisions, so that models are refreshed."""
    bandit = client.create(features=FEATURES, arms=ARMS)
    deadline = time.monotonic() + 60
    while bandit.status().details["status"]["refreshes"] < 2:
        bandit.feedback(bandit.decide(CONTEXTS), 0.5)
        assert time.monotonic() < deadline, bandit.status().details
    client.close()


def test_the_end_of_the_program(server: Server) -> None:
    """Calls that are under way when the program ends do not abort it: their threads no longer enter the
    interpreter. Without the bound one of six such programs aborts, so that thirty pass by chance once in 200 times."""
    program = """
import asyncio, random, sys
import helba.aio

async def main():
    client = helba.aio.Client(sys.argv[1])
    calls = [asyncio.ensure_future(client.policies()) for _ in range(60)]
    await asyncio.sleep(random.uniform(0, 0.05))

asyncio.run(main())
"""
    for _ in range(30):
        done = subprocess.run([sys.executable, "-c", program, server.url], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
