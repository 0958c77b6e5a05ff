"""Plays 2,000 generated visits on ciphertexts through the agent's HTTP interface, with score features that 20,000 earlier visits teach.

    cargo build --release --bin helba-keygen --bin helba-server --bin helba-agent --bin helba-client
    cargo build --release -p helba-lab --example decisions
    venv/bin/python lab/peers/encrypted.py --programs target/release

Keys, server and agent are processes of their own. The application knows the transformation of `data transform --supervised`, sends
each visit by its names, plays the arm that comes back, and returns whether that offer was clicked. The visits are those of seed 1 in
`peers.py`. What is counted is the expected reward of the second 1,000. `--toy` takes keys that protect nothing and answers sooner.
It writes `kept/encrypted.json`, which `peers.py` puts on its page. The virtual environment is that of `peers.py`.
"""

import argparse
import csv
import http.client
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers import ROOT, Programs, Visits


class Program:
    """A process that says where it listens in its first line."""

    def __init__(self, *command: object) -> None:
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise SystemExit(f"{command[0]} does not listen: {line}")
        self.address = line.split()[2].rstrip(";")

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


class Application:
    """JSON over one connection to the agent."""

    def __init__(self, address: str, token: str) -> None:
        self.http = http.client.HTTPConnection(address, timeout=600)
        self.token = token

    def ask(self, method: str, path: str, body: object = None) -> dict:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        self.http.request(method, f"/v1/bandits{path}", None if body is None else json.dumps(body), headers)
        answer = self.http.getresponse()
        text = answer.read().decode()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text}")
        return json.loads(text)


def named(visit: dict[str, str], arms: list[str]) -> dict:
    """A visit as the application knows it: values with names."""
    context = {name: visit[name] for name in ("country", "device")}
    context |= {name: int(visit[name]) for name in ("age", "returning")}
    return {"context": context, "candidates": [{"price": float(visit[f"price.{arm}"])} for arm in arms]}


def play(programs: Programs, visits: Visits, toy: bool, rounds: int, seed: int) -> dict:
    log, truth = visits.generated(seed)
    with open(log, newline="") as a, open(truth, newline="") as b:
        rows, truths = list(csv.DictReader(a))[:rounds], list(csv.DictReader(b))[:rounds]
    transform = json.loads(visits.score.read_text())
    keys = [programs.work / name for name in ("public.bundle", "secret.bundle")]
    few, _ = visits.rounds(seed)
    features, arms = few.rows.shape[2], few.arms
    weak = ["--toy"] if toy else []
    began = time.monotonic()
    command = [programs.folder / "helba-keygen", "create", "--features", features, "--arms", len(arms)]
    command += ["--public", keys[0], "--secret", keys[1], *weak]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    print(f"keys after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    state, own = programs.work / "server", programs.work / "agent"
    with (
        Program(programs.folder / "helba-server", "--keys", keys[0], "--state", state, "--listen", "127.0.0.1:0", *weak) as server,
        Program(
            programs.folder / "helba-agent", "--server", f"http://{server.address}", "--secret", keys[1], "--state", own,
            "--listen", "127.0.0.1:0", *weak,
        ) as agent,
    ):
        application = Application(agent.address, (own / "agent.token").read_text().strip())
        bandit = application.ask("POST", "", {"transform": transform, "name": "visits", "horizon": rounds})
        config = bandit["config"]
        earned, played, unreliable = [], [], 0
        began = time.monotonic()
        for t, (visit, known) in enumerate(zip(rows, truths), 1):
            decided = application.ask("POST", f"/{bandit['id']}/decisions", named(visit, arms))
            arm = decided["arm"]
            unreliable += not decided["reliable"]
            path = f"/{bandit['id']}/decisions/{decided['decision']}/feedback"
            application.ask("POST", path, {"reward": float(known[f"reward.{arms[arm]}"])})
            played.append(arm)
            earned.append(float(known[f"expected.{arms[arm]}"]))
            if t % 50 == 0:
                took = time.monotonic() - began
                print(f"{t} visits, {took:.0f} s, {sum(earned[-50:]) / 50:.4f} of the last 50", file=sys.stderr, flush=True)
        seconds = time.monotonic() - began
        status = application.ask("GET", f"/{bandit['id']}")
    # The same algorithm in the clear on the same rounds, which learns from each batch as soon as it has ended.
    twin = programs.ours(few)[:rounds]
    first = rounds // 2
    return {
        "keys": "toy" if toy else "production",
        "seed": seed,
        "rounds": rounds,
        "width": config["linear"]["width"],
        "earned": round(sum(earned[first:]) / (rounds - first), 4),
        "clear twin": round(float(sum(few.expected[t, arm] for t, arm in enumerate(twin) if t >= first)) / (rounds - first), 4),
        "possible": round(float(few.expected.max(axis=1)[first:rounds].mean()), 4),
        "same arm as the twin": sum(a == b for a, b in zip(played, twin)),
        "unreliable": unreliable,
        "feedbacks in the model": status["status"]["model_feedbacks"],
        "seconds": round(seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=ROOT / "target" / "release")
    parser.add_argument("--toy", action="store_true", help="keys that protect nothing")
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "lab" / "peers" / "kept" / "encrypted.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(options.programs.resolve(), Path(folder))
        found = play(programs, Visits(programs), options.toy, options.rounds, options.seed)
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
