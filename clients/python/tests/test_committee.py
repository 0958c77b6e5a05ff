"""A client whose keys a committee holds, over a rotation of these keys."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import helba
import pytest
from conftest import PROGRAMS, Server, run

ROWS = [[0.3, 0.1], [0.1, 0.3]]


@contextmanager
def running(*commands: list[object]) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of helba-member, which are killed at the end."""
    member = str(PROGRAMS / "helba-member")
    started = [
        subprocess.Popen([member, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for command in commands
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def make_keys(folder: Path, *proposed: object) -> list[Path]:
    """The folders of three members who make keys together."""
    folder.mkdir()
    cards = []
    for j in range(3):
        cards.append(folder / f"{j}.card")
        cards[j].write_text(run("helba-member", "identity", "--out", folder / f"{j}.identity"))
    proposal = folder / "proposal.json"
    run("helba-member", "propose", *proposed, "--threshold", 2, "--out", proposal, *cards)
    board = ["board", "--proposal", proposal, "--folder", folder / "board", "--listen", "127.0.0.1:0"]
    with running(list(board)) as [process]:
        assert process.stdout is not None
        url = f"http://{process.stdout.readline().split()[-1]}"
        keygen = ["keygen", "--proposal", proposal, "--board", url]
        each = [[*keygen, "--identity", folder / f"{j}.identity", "--out", folder / str(j)] for j in range(3)]
        with running(*each) as members:
            assert all(member.wait(timeout=300) == 0 for member in members)
    return [folder / str(j) for j in range(3)]


def serving(url: str, folders: list[Path], *more: object) -> list[list[object]]:
    """The commands of members who serve the server at `url`."""
    public, users = folders[0] / "public.bundle", folders[0] / "users.bundle"
    common: list[object] = ["serve", "--server", url, "--users", users, "--public", public]
    return [[*common, "--keys", folder / "member.keys", *more] for folder in folders]


def test_a_client_goes_on_after_a_rotation(tmp_path: Path) -> None:
    before = make_keys(tmp_path / "before", "--features", 2, "--arms", 2, "--toy")
    public = before[0] / "public.bundle"
    after = make_keys(tmp_path / "after", "--rotate", public)
    old: list[object] = ["--keys", public, "--toy"]
    new: list[object] = ["--keys", after[0] / "public.bundle", "--toy"]
    moved = tmp_path / "moved"

    server = Server(tmp_path / "state", *old)
    client = helba.Client(server.url, helba.Keys.open(before[0] / "users.bundle", toy=True), patience=60)
    with running(*serving(server.url, before)):
        bandit = client.create(features=2, arms=2, name="a shop", tags=["summer"])
        bandit.feedback(bandit.decide(ROWS), 0.5)
        waits = bandit.decide(ROWS)
    server.kill()

    to = after[0] / "public.bundle"
    rotating = Server(tmp_path / "state", *old, "--rotate", to, "--rotated", moved, listen=server.address)
    with running(*serving(server.url, before, "--next", to)):
        assert rotating.process.wait(timeout=300) == 0

    taken: list[object] = ["--rotated", moved, "--users", after[0] / "users.bundle"]
    server = Server(tmp_path / "next", *new, *taken, listen=server.address)
    try:
        with running(*serving(server.url, after)):
            time.sleep(1)
            bandit.feedback(bandit.decide(ROWS), 0.25)
            with pytest.raises(helba.DecisionError, match="takes no feedback any more"):
                bandit.feedback(waits, 0.5)
        assert [one.bandit_id for one in client.bandits(name="a shop", tag="summer")] == [bandit.bandit_id]
        # Another process of the same user opens the bundle with the next keys.
        again = helba.Keys.open(before[0] / "users.bundle", toy=True)
        assert again.key_id == helba.Keys.open(after[0] / "users.bundle", toy=True).key_id
    finally:
        server.kill()
