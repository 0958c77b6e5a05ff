"""Users with keys of their own, whom the owner of the bandit's keys has enrolled."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import helba
import pytest
from conftest import ARMS, FEATURES, PROGRAMS, Bundles, Server, run

CONTEXTS = [[0.5, 0.1, 0.0, 0.2], [0.1, 0.3, 0.1, 0.0]]


class Owned:
    """A server of keys whose users have their own, the owner's raiser beside it, and a bandit of the owner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bundles = Bundles(folder, FEATURES, ARMS, "--keys", "own", "--updates", "products", "--toy")
        self.server = Server(folder / "state", "--keys", self.bundles.public, "--toy")
        removed = folder / "removed.json"
        run("helba-keygen", "remove", "--list", removed)
        command = [PROGRAMS / "helba-raiser", "--server", self.server.url, "--keys", self.bundles.secret, "--toy"]
        self.raiser = subprocess.Popen([*map(str, command), "--removed", removed], stderr=subprocess.DEVNULL)
        with helba.Client(self.server.url, helba.Keys.open(self.bundles.secret, toy=True)) as owner:
            self.bandit_id = owner.create(features=FEATURES, arms=ARMS).bandit_id

    def user(self, name: str) -> tuple[Path, Path]:
        """The files of a new user's secret and bundle."""
        secret, request, bundle = (self.folder / f"{name}.{what}" for what in ("secret", "request", "user"))
        fingerprint = helba.Keys.create_user(secret, request)
        keys = ("--secret", self.bundles.secret, "--public", self.bundles.public)
        told = run("helba-keygen", "enrol", *keys, "--request", request, "--name", name, "--user", bundle)
        assert len(fingerprint) == 16 and fingerprint in told
        return secret, bundle

    def kill(self) -> None:
        self.raiser.kill()
        self.raiser.wait()
        self.server.kill()


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owned]:
    owned = Owned(tmp_path_factory.mktemp("own"))
    yield owned
    owned.kill()


def decide(bandit: helba.Bandit) -> helba.Decision:
    """A decision, as soon as the raiser has found the bandit."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return bandit.decide(CONTEXTS)
        except helba.BusyError:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_an_enrolled_user_plays(owned: Owned) -> None:
    secret, bundle = owned.user("alice")
    assert secret.stat().st_mode & 0o777 == 0o600
    keys = helba.Keys.open(secret, user=bundle, toy=True)
    assert keys.key_id == helba.Keys.open(owned.bundles.secret, toy=True).key_id
    assert keys.features == (3, 4) and keys.arms == (1, 2)
    with helba.Client(owned.server.url, keys) as client:
        bandit = client.bandit(owned.bandit_id)
        before = bandit.status().feedbacks
        for played in [0, 1] * 8:
            decision = decide(bandit)
            assert decision.reliable and decision.arm in (0, 1)
            bandit.feedback(decision, float(played), arm=played)
        assert bandit.status().feedbacks == before + 16
        # Feedback from sealed bytes; the model has learnt that arm 1 pays.
        kept = helba.Decision.from_bytes(decide(bandit).to_bytes(keys), keys)
        assert bandit.feedback(kept, 0.5).feedbacks == before + 17
        deadline = time.monotonic() + 60
        while decide(bandit).arm != 1:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # Users decide and return feedback, and nothing else.
        with pytest.raises(helba.ForbiddenError):
            client.create(features=FEATURES, arms=ARMS)

    async def together() -> list[helba.Decision]:
        async with helba.aio.Client(owned.server.url, keys) as client:
            bandit = await client.bandit(owned.bandit_id)
            return await asyncio.gather(*(bandit.decide(CONTEXTS) for _ in range(2)))

    assert all(decision.reliable for decision in asyncio.run(together()))


def test_bundles_of_others_cannot_be_used(owned: Owned, server: Server) -> None:
    (alice, of_alice), (bob, of_bob) = owned.user("alice-2"), owned.user("bob")
    for secret, bundle in [(alice, of_bob), (bob, of_alice)]:
        with pytest.raises(helba.KeysError, match="enrolled another user"):
            helba.Keys.open(secret, user=bundle, toy=True)
    with pytest.raises(helba.KeysError, match="toy=True"):
        helba.Keys.open(bob, user=of_bob)
    with pytest.raises(helba.KeysError, match="secret.bundle"):
        helba.Keys.open(owned.bundles.secret, user=of_bob, toy=True)
    with pytest.raises(helba.KeysError, match="bob.secret"):
        helba.Keys.open(bob, toy=True)
    with pytest.raises(helba.KeysError, match="bob.secret"):
        helba.Keys.open(bob, user=bob, toy=True)
    with pytest.raises(helba.ArgumentError, match="passphrase"):
        helba.Keys.open(bob, "secret", user=of_bob, toy=True)
    bob.chmod(0o644)
    with pytest.raises(helba.KeysError, match="chmod 600"):
        helba.Keys.open(bob, user=of_bob, toy=True)
    bob.chmod(0o600)
    # A server of other keys has not enrolled the user.
    with pytest.raises(helba.UnauthorizedError):
        helba.Client(server.url, helba.Keys.open(bob, user=of_bob, toy=True), patience=0).bandits()
    # A secret is never overwritten, and no request is left without one.
    content = bob.read_bytes()
    with pytest.raises(helba.KeysError, match="bob.secret"):
        helba.Keys.create_user(bob, owned.folder / "new.request")
    assert bob.read_bytes() == content and not (owned.folder / "new.request").exists()


def test_an_enrolment_belongs_to_its_token(owned: Owned) -> None:
    """A token that is given in place of the user's travels without the enrolment."""
    secret, bundle = owned.user("carol")
    keys = helba.Keys.open(secret, user=bundle, toy=True)
    bandit = helba.Client(owned.server.url, keys, token="0" * 64, patience=0).bandit(owned.bandit_id)
    with pytest.raises(helba.UnauthorizedError):
        bandit.decide(CONTEXTS)
