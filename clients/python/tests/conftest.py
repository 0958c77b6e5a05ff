"""Real processes: keys from helba-keygen, and a helba-server on a free loopback port."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import helba
import pytest

ROOT = Path(os.environ.get("HELBA_ROOT", Path(__file__).resolve().parents[3]))
PROGRAMS = Path(os.environ.get("HELBA_PROGRAMS", ROOT / "target" / "release"))
FEATURES, ARMS = 4, 2


def run(program: str, *arguments: object) -> str:
    command = [str(PROGRAMS / program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Bundles:
    """Keys as files."""

    def __init__(self, folder: Path, features: int, arms: int, *options: object) -> None:
        self.public, self.secret = folder / "public.bundle", folder / "secret.bundle"
        sizes = ("--features", features, "--arms", arms)
        run("helba-keygen", "create", *sizes, "--public", self.public, "--secret", self.secret, *options)


class Server:
    """A helba-server as a process of its own."""

    def __init__(self, folder: Path, *options: object, listen: str = "127.0.0.1:0") -> None:
        command = [PROGRAMS / "helba-server", "--state", folder, "--listen", listen, *options]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), line
        self.address = line.split()[-1]
        self.url = f"http://{self.address}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    return Bundles(tmp_path_factory.mktemp("keys"), FEATURES, ARMS, "--toy", "--width", "root")


@pytest.fixture(scope="session")
def server(bundles: Bundles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("state"), "--keys", bundles.public, "--toy", "--max-bandits", 256)
    yield server
    server.kill()


@pytest.fixture(scope="session")
def keys(bundles: Bundles) -> helba.Keys:
    return helba.Keys.open(bundles.secret, toy=True)


@pytest.fixture(scope="session")
def client(server: Server, keys: helba.Keys) -> Iterator[helba.Client]:
    with helba.Client(server.url, keys, patience=0) as client:
        yield client


@pytest.fixture(scope="session")
def encrypted(client: helba.Client) -> helba.Bandit:
    """An encrypted bandit for all tests that do not count its rounds."""
    return client.create(features=FEATURES, arms=ARMS)


@pytest.fixture(scope="session")
def clear(client: helba.Client) -> helba.Bandit:
    return client.create(policy="oful", features=FEATURES, arms=ARMS)
