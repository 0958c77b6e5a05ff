"""Plays arms of which the best one is drawn anew every 2,000 rounds, with and without forgetting, and with two other libraries on the same rewards. Writes
lab/peers/kept/drift.json, which docs/forgetting.md shows.

    cargo build --release -p helba-lab --example decisions
    venv/bin/python lab/peers/drift.py --programs target/release --seeds 6
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from peers import Contextualbandits, Mabwiser

ROOT = Path(__file__).resolve().parents[2]
ROUNDS, PERIOD, ARMS = 20_000, 2_000, 4
OURS = {
    "ours, all feedback alike": [],
    "ours, discount 0.998": ["--discount", "0.998"],
    "ours, discount 0.995": ["--discount", "0.995"],
    "ours, window 500": ["--window", "500"],
}


def stream(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Chances of success, 0.7 of the best arm and 0.4 of the others, and successes."""
    rng = np.random.default_rng(seed)
    best = np.repeat(rng.integers(0, ARMS, ROUNDS // PERIOD), PERIOD)
    chances = np.where(np.arange(ARMS) == best[:, None], 0.7, 0.4)
    return chances, (rng.random((ROUNDS, ARMS)) < chances).astype(float)


def written(path: Path, rewards: np.ndarray) -> Path:
    """The rounds as `helba-client data convert` writes them: the features of an arm are its number."""
    names = "abcd"[:ARMS]
    header = [f"x{j}.{arm}" for arm in names for j in range(ARMS)] + [f"reward.{arm}" for arm in names]
    one_hot = ",".join(str(int(j == arm)) for arm in range(ARMS) for j in range(ARMS))
    rows = [f"{t},{one_hot},{','.join(str(int(r)) for r in row)}" for t, row in enumerate(rewards)]
    path.write_text("\n".join([",".join(["round", *header]), *rows]) + "\n")
    return path


def peer(name: str, seed: int):
    from contextualbandits.online import LinUCB
    from mabwiser.mab import LearningPolicy

    if name == "MABWiser LinUCB":
        return Mabwiser(LearningPolicy.LinUCB(alpha=1.0), ARMS, seed)
    return Contextualbandits(LinUCB(nchoices=ARMS, alpha=1.0, random_state=seed + 1), ARMS)


def played(name: str, rewards: np.ndarray, seed: int) -> np.ndarray:
    """The arms of a library, whose context is the number 1: it learns each arm by itself."""
    policy, x, arms = peer(name, seed), np.ones((ROUNDS, 1)), []
    for t in range(ROUNDS):
        arm = policy.choose(x, t, None)
        policy.learn(x, t, arm, rewards[t, arm], None)
        arms.append(arm)
    return np.array(arms)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=6)
    arguments = parser.parse_args()
    kept: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seeds):
            chances, rewards = stream(seed)
            file = written(Path(folder) / "drift.csv", rewards)
            arms = {}
            for name, options in OURS.items():
                command = [arguments.programs / "examples" / "decisions", file, *options]
                out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                arms[name] = np.array([int(arm) for arm in out.split()])
            for name in ("MABWiser LinUCB", "contextualbandits LinUCB"):
                arms[name] = played(name, rewards, seed)
            for name, of in arms.items():
                regret = (0.7 - chances[np.arange(ROUNDS), of]).sum()
                kept.setdefault(name, []).append(round(float(regret), 1))
            print(seed, {name: values[-1] for name, values in kept.items()}, flush=True)
            (ROOT / "lab" / "peers" / "kept" / "drift.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
