"""Keys, tokens and servers that are not as they must be, and the end of waits."""

from __future__ import annotations

import copy
import logging
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import helba
import pytest
from conftest import ARMS, FEATURES, ROOT, Bundles, Server, run

CONTEXTS = [[0.5, 0.1, 0.0, 0.2], [0.1, 0.3, 0.1, 0.0]]


def test_keys_show_and_copy_no_secret(keys: helba.Keys, bundles: Bundles) -> None:
    assert keys.key_id in repr(keys) and len(repr(keys)) < 120
    assert keys.features == (3, 4) and keys.arms == (1, 2)
    # The secret bundle has the token as bytes, and the key.
    content = bundles.secret.read_bytes()
    assert not any(content[at : at + 8].hex() in repr(keys) for at in range(len(content) - 64, len(content) - 8))
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            attempt(keys)
    assert vars(helba.Keys).keys() & {"token", "secret", "device"} == set()
    with pytest.raises(TypeError):
        type(keys)()


def test_decisions_show_and_copy_nothing(encrypted: helba.Bandit, client: helba.Client) -> None:
    decision = encrypted.decide(CONTEXTS)
    assert "0." not in repr(decision) and decision.details == {}
    for thing in (decision, client):
        with pytest.raises(TypeError):
            pickle.dumps(thing)


def test_bundles_that_cannot_be_opened(bundles: Bundles, tmp_path: Path) -> None:
    with pytest.raises(helba.KeysError, match="toy=True"):
        helba.Keys.open(bundles.secret)
    with pytest.raises(helba.KeysError, match="is not sealed: leave passphrase out"):
        helba.Keys.open(bundles.secret, "secret", toy=True)
    with pytest.raises(helba.KeysError, match="none"):
        helba.Keys.open(tmp_path / "none", toy=True)
    with pytest.raises(helba.KeysError, match="public"):
        helba.Keys.open(bundles.public, toy=True)
    readable = tmp_path / "secret.bundle"
    readable.write_bytes(bundles.secret.read_bytes())
    readable.chmod(0o644)
    with pytest.raises(helba.KeysError, match="chmod 600"):
        helba.Keys.open(readable, toy=True)
    readable.chmod(0o600)
    readable.write_bytes(bundles.secret.read_bytes()[:-9])
    with pytest.raises(helba.KeysError):
        helba.Keys.open(readable, toy=True)


def test_a_sealed_bundle(tmp_path: Path) -> None:
    (tmp_path / "passphrase").write_text("correct horse\n")
    sealed = Bundles(tmp_path, FEATURES, ARMS, "--toy", "--passphrase-file", tmp_path / "passphrase").secret
    for passphrase in ("correct horse", b"correct horse"):
        assert helba.Keys.open(sealed, passphrase, toy=True).arms == (1, 2)
    with pytest.raises(helba.KeysError, match="give its passphrase"):
        helba.Keys.open(sealed, toy=True)
    with pytest.raises(helba.KeysError, match="does not open") as refused:
        helba.Keys.open(sealed, "wrong horse", toy=True)
    assert "horse" not in str(refused.value)
    with pytest.raises(helba.KeysError, match="empty"):
        helba.Keys.open(sealed, "", toy=True)


def test_attack_stored_decisions_are_sealed(encrypted: helba.Bandit, keys: helba.Keys, tmp_path: Path) -> None:
    """The bytes show no feature, and open under the key that sealed them alone. The control is a clear
    decision, whose bytes are readable."""
    first = encrypted.decide(CONTEXTS)
    data = first.to_bytes(keys)
    assert encrypted.bandit_id.encode() not in data
    with pytest.raises(helba.KeysError, match="sealed"):
        helba.Decision.from_bytes(data)
    with pytest.raises(helba.KeysError, match="give the keys"):
        first.to_bytes()
    other = helba.Keys.open(Bundles(tmp_path, FEATURES, ARMS, "--toy").secret, toy=True)
    flipped = bytearray(data)
    flipped[-1] ^= 1
    for bad, opener in ((data, other), (bytes(flipped), keys), (data[:-1], keys), (b"", keys)):
        with pytest.raises(helba.DecisionError):
            helba.Decision.from_bytes(bad, opener)
    again = helba.Decision.from_bytes(data, keys)
    assert (again.decision_id, again.arm, again.reliable) == (first.decision_id, first.arm, True)


class Recorder:
    """A proxy of a server that keeps every byte that is sent to it."""

    def __init__(self, server: Server) -> None:
        host, port = server.address.rsplit(":", 1)
        self.sent = bytearray()
        self._to = (host, int(port))
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._socket.accept()
            server = socket.create_connection(self._to)
            threading.Thread(target=self._pass, args=(client, server, self.sent), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, bytearray()), daemon=True).start()

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        while data := source.recv(1 << 16):
            kept += data
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def test_attack_nothing_but_ciphertexts_leaves(server: Server, keys: helba.Keys) -> None:
    """Whoever reads the line finds no feature and no reward, as text or as a number of eight bytes. The control
    is a clear bandit, whose features and reward are read there."""
    features = [[0.123456789, -0.234567891, 0.345678912, 0.456789123], [0.1415926535, 0.1718281828, 0.4142135623, 0.25]]
    secrets = [*features[0], *features[1][:3], 0.7320508075]
    forms = [form for value in secrets for form in _forms(value)]
    shown = {}
    for policy in (None, "oful"):
        line = Recorder(server)
        bandit = helba.Client(line.url, keys).create(features=FEATURES, arms=ARMS, policy=policy)
        bandit.feedback(bandit.decide(features), secrets[-1])
        shown[policy] = sum(form in line.sent for form in forms)
        assert bandit.bandit_id.encode() in line.sent and len(line.sent) > 500
    assert shown[None] == 0 and shown["oful"] == len(secrets)


def _forms(value: float) -> list[bytes]:
    return [repr(value).encode(), struct.pack("<d", value), struct.pack(">d", value)]


@pytest.mark.parametrize("kind", ["encrypted", "clear"])
def test_feedback_from_another_process(
    request: pytest.FixtureRequest, kind: str, server: Server, bundles: Bundles, keys: helba.Keys, tmp_path: Path
) -> None:
    bandit: helba.Bandit = request.getfixturevalue(kind)
    decision = bandit.decide(CONTEXTS)
    (tmp_path / "decision").write_bytes(decision.to_bytes(keys))
    before = bandit.status().feedbacks
    code = (
        "import sys, helba\n"
        "url, secret, file = sys.argv[1:]\n"
        "keys = helba.Keys.open(secret, toy=True)\n"
        "decision = helba.Decision.from_bytes(open(file, 'rb').read(), keys)\n"
        "bandit = helba.Client(url, keys).bandit(decision.bandit_id)\n"
        "print(bandit.feedback(decision, 0.25).feedbacks)\n"
    )
    command = [sys.executable, "-c", code, server.url, str(bundles.secret), str(tmp_path / "decision")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(before + 1), done.stderr
    # The server knows that the reward was counted, and gives the receipt again.
    assert bandit.feedback(decision, 0.25).feedbacks == before + 1
    other = "clear" if kind == "encrypted" else "encrypted"
    with pytest.raises(helba.DecisionError, match="of bandit"):
        request.getfixturevalue(other).feedback(decision, 0.25)


def test_tokens(server: Server, keys: helba.Keys, encrypted: helba.Bandit, tmp_path: Path) -> None:
    wrong = helba.Client(server.url, keys, token="0" * 64)
    for call in (lambda: wrong.create(features=FEATURES, arms=ARMS), wrong.bandits):
        with pytest.raises(helba.UnauthorizedError) as refused:
            call()
        assert (refused.value.code, refused.value.status) == ("unauthorized", 401)
        assert "0000" not in str(refused.value)
    with pytest.raises(helba.UnauthorizedError):
        wrong.bandit(encrypted.bandit_id).decide(CONTEXTS)
    with pytest.raises(helba.ArgumentError, match="64 hexadecimal digits"):
        helba.Client(server.url, token="secret")
    with pytest.raises(helba.ArgumentError, match="none"):
        helba.Client(server.url, token=tmp_path / "none")
    run("helba-keygen", "token", tmp_path / "token")
    with pytest.raises(helba.UnauthorizedError):
        helba.Client(server.url, keys, token=tmp_path / "token").bandits()


def test_an_operators_token(tmp_path: Path) -> None:
    run("helba-keygen", "token", tmp_path / "token")
    server = Server(tmp_path / "state", "--operator-token-file", tmp_path / "token")
    try:
        with pytest.raises(helba.UnauthorizedError):
            helba.Client(server.url).create(policy="ucb1", arms=2)
        made = helba.Client(server.url, token=tmp_path / "token").create(policy="ucb1", arms=2)
        digits = (tmp_path / "token").read_text()
        assert [one.bandit_id for one in helba.Client(server.url, token=digits).bandits()] == [made.bandit_id]
    finally:
        server.kill()


def test_a_token_for_decisions_alone(
    bundles: Bundles, keys: helba.Keys, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It plays rounds, raises for nobody, and creates nothing."""
    state, token = tmp_path / "state", tmp_path / "token"
    server = Server(state, "--keys", bundles.public, "--toy")
    try:
        bandit = helba.Client(server.url, keys).create(features=FEATURES, arms=ARMS)
        scopes = ("--name", "shop", "--scope", "decide,feedback", "--bandit", bandit.bandit_id)
        run("helba-server", "token", "create", "--state", state, *scopes, "--out", token)
        client = helba.Client(server.url, keys, token=token)
        shop = client.bandit(bandit.bandit_id)
        for rounds in range(1, 4):
            assert shop.feedback(shop.decide(CONTEXTS), 0.5).feedbacks == rounds
        with pytest.raises(helba.ForbiddenError, match="forbidden_scope"):
            client.create(features=FEATURES, arms=ARMS)
        caplog.set_level(logging.INFO, logger="helba")
        with client.raiser([bandit.bandit_id]) as raiser:
            deadline = time.monotonic() + 20
            while not any("refused (403" in line for line in caplog.messages) and time.monotonic() < deadline:
                assert not raiser.wait(0.05)
        assert any("refused (403" in line for line in caplog.messages), caplog.messages
    finally:
        server.kill()


def test_a_client_without_keys(server: Server, encrypted: helba.Bandit) -> None:
    client = helba.Client(server.url)
    with pytest.raises(helba.KeysError, match="policy='oful'"):
        client.create(features=FEATURES, arms=ARMS)
    with pytest.raises(helba.KeysError, match="open the client with keys"):
        client.bandit(encrypted.bandit_id).decide(CONTEXTS)
    # The state is public.
    assert client.bandit(encrypted.bandit_id).status().round == encrypted.status().round


def test_foreign_keys(server: Server, tmp_path: Path, encrypted: helba.Bandit) -> None:
    stranger = helba.Keys.open(Bundles(tmp_path, FEATURES, ARMS, "--toy").secret, toy=True)
    with pytest.raises(helba.KeysError, match="key id"):
        helba.Client(server.url, stranger).bandit(encrypted.bandit_id).decide(CONTEXTS)
    with helba.Client(server.url, stranger).raiser() as raiser, pytest.raises(helba.KeysError):
        raiser.wait(20)


def test_addresses() -> None:
    for url in ("127.0.0.1:8080", "ftp://x", ""):
        with pytest.raises(helba.ArgumentError, match="https://HOST:PORT"):
            helba.Client(url)
    with pytest.raises(helba.ArgumentError, match="patience"):
        helba.Client("http://127.0.0.1", patience=-1)
    with pytest.raises(helba.ArgumentError, match="ca"):
        helba.Client("https://127.0.0.1", ca="/none.pem")
    with pytest.warns(helba.InsecureWarning, match="without encryption"):
        helba.Client("http://example.org", token="0" * 64)
    with pytest.raises(helba.ArgumentError, match="an id must have"):
        helba.Client("http://127.0.0.1").bandit("../keys")


def test_a_server_that_dies_and_comes_back(bundles: Bundles, keys: helba.Keys, tmp_path: Path) -> None:
    options = ("--keys", bundles.public, "--toy")
    server = Server(tmp_path / "state", *options)
    bandit = helba.Client(server.url, keys, patience=60).create(features=FEATURES, arms=ARMS)
    impatient = helba.Client(server.url, keys, patience=0).bandit(bandit.bandit_id)
    decision = bandit.decide(CONTEXTS)
    server.kill()
    began = time.monotonic()
    with pytest.raises(helba.UnreachableError) as away:
        impatient.decide(CONTEXTS)
    assert time.monotonic() - began < 5 and away.value.server == server.url
    again = pickle.loads(pickle.dumps(away.value))
    assert str(again) == str(away.value)
    # A patient client goes on when the server is back.
    counted: list[helba.Counted] = []
    waiting = threading.Thread(target=lambda: counted.append(bandit.feedback(decision, 0.5)))
    waiting.start()
    time.sleep(0.5)
    assert waiting.is_alive()
    server = Server(tmp_path / "state", *options, listen=server.address)
    try:
        waiting.join(60)
        assert [receipt.feedbacks for receipt in counted] == [1]
        assert impatient.decide(CONTEXTS).reliable
    finally:
        server.kill()


WAITS = """
import sys, helba
url, what, *secret = sys.argv[1:]
keys = helba.Keys.open(secret[0], toy=True) if secret else None
client = helba.Client(url, keys)
print("waits", flush=True)
try:
    if what == "request":
        client.bandits()
    elif what == "asyncio":
        import asyncio
        asyncio.run(helba.aio.Client(url).bandits())
    else:
        client.raise_forever()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("what", ["request", "asyncio", "raiser"])
def test_control_c_ends_a_wait(what: str, server: Server, bundles: Bundles) -> None:
    # It accepts connections, and answers nothing.
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    arguments = [server.url, what, str(bundles.secret)] if what == "raiser" else [url, what]
    command = [sys.executable, "-c", WAITS, *arguments]
    with silent, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "waits\n"
        time.sleep(1)
        assert process.poll() is None
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "interrupted\n"
        assert process.returncode == 0 and time.monotonic() - began < 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_is_told(encrypted: helba.Bandit) -> None:
    """It would wait for ever: it has the locks of its parent and none of its threads."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(False)
    process = context.Process(target=_in_child, args=(encrypted, send))
    process.start()
    assert receive.poll(20) and "forked" in receive.recv()
    process.join(20)
    assert process.exitcode == 0


def _in_child(bandit: helba.Bandit, send: "multiprocessing.connection.Connection[str, str]") -> None:
    try:
        bandit.decide(CONTEXTS)
        send.send("decided")
    except helba.Error as error:
        send.send(str(error))


def test_the_table_of_problems_is_that_of_the_server() -> None:
    declared = (ROOT / "crates" / "wire" / "src" / "problem.rs").read_text()
    assert len(helba.PROBLEMS) > 50
    assert all(f'"{code}" "{sentence}"' in declared for code, sentence in helba.PROBLEMS.items() if code != "body_lost")
