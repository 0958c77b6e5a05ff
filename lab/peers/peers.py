"""Plays files with the algorithm of the encrypted bandit and with four other libraries, and writes docs/peers.md.

    cargo build --release -p user-client -p helba-lab --example decisions --bin helba-client
    python3 -m venv venv && venv/bin/pip install --no-deps -r lab/peers/requirements.txt
    venv/bin/python lab/peers/peers.py --programs target/release --seeds 20

`obp` names torch as a dependency, which only its neural learners use: it is installed without, and this script gives it an empty module.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import t as student

warnings.filterwarnings("ignore")
ROOT = Path(__file__).resolve().parents[2]
PEERS = [
    "MABWiser LinUCB",
    "MABWiser LinTS",
    "contextualbandits LinUCB",
    "VowpalWabbit epsilon",
    "VowpalWabbit squarecb",
    "obp LinUCB",
    "obp LinTS",
]


SHOWN = {
    "Yogurt": "purchases, Yogurt",
    "Cracker": "purchases, Cracker",
    "visits": "generated visits",
    "visits-scored": "the same with score features",
    "trial": "two-armed trial",
    "ratings": "ratings log",
    "logged": "logged bandit",
}
WIDE = {
    "treatments": "60 features, 5 treatments",
    "visits-all": "generated visits, 45 features",
    "cars": "cars, 52 features, 6 arms",
    "ratings-48": "ratings log, 48 features",
    "ratings-64": "ratings log, 64 features",
    "logged-all": "logged bandit, 47 features",
}
"""Files of more features than 16."""
SEVERAL = ("visits", "visits-scored", "trial", "treatments", "visits-all")
"""Files of which every seed is another one."""


class Rounds:
    """Rounds of a converted file: a row of features for each arm, and the rewards that are known."""

    def __init__(self, path: Path, expected: np.ndarray | None = None) -> None:
        with open(path, newline="") as file:
            rows = list(csv.reader(file))
        header, cells = rows[0], rows[1:]
        features = [name.split(".", 1) for name in header if name.startswith("x")]
        self.path = path
        self.arms = list(dict.fromkeys(arm for _, arm in features))
        d = len(features) // len(self.arms)
        numbers = np.array([row[1 : 1 + len(features)] for row in cells], dtype=float)
        self.rows = numbers.reshape(len(cells), len(self.arms), d)
        self.logged = "action" in header
        if self.logged:
            at = [header.index(name) for name in ("action", "reward", "propensity")]
            self.action = np.array([self.arms.index(row[at[0]]) for row in cells])
            self.reward = np.array([float(row[at[1]]) for row in cells])
            self.propensity = np.array([float(row[at[2]]) for row in cells])
        else:
            at = [header.index(f"reward.{arm}") for arm in self.arms]
            self.rewards = np.array([[float(row[i]) for i in at] for row in cells])
            self.expected = self.rewards if expected is None else expected

    def __len__(self) -> int:
        return len(self.rows)

    def observed(self, t: int, arm: int) -> float | None:
        """The reward of an arm, if the file knows it."""
        if self.logged:
            return self.reward[t] if self.action[t] == arm else None
        return self.rewards[t, arm]

    def earned(self, arms: list[int], first: int) -> float:
        """The mean reward from round `first` on: expected where the truth is known; of logged actions, those of the
        rounds in which the action is the logged one, weighted by 1 divided by its probability."""
        arms = np.array(arms)
        if self.logged:
            weights = self.weights(arms, first)
            return float((weights * self.reward[first:]).sum() / weights.sum())
        return float(self.expected[np.arange(len(arms)), arms][first:].mean())

    def weights(self, arms: np.ndarray, first: int) -> np.ndarray:
        return (arms == self.action)[first:] / self.propensity[first:]

    def terms(self, arms: list[int], first: int) -> np.ndarray:
        """Numbers of rounds, whose mean is 0, and whose standard error is that of `earned` over rounds that are
        independent: of logged actions by linearisation."""
        arms = np.array(arms)
        if self.logged:
            weights = self.weights(arms, first)
            return weights * (self.reward[first:] - self.earned(arms, first)) / weights.mean()
        earned = self.expected[np.arange(len(arms)), arms][first:]
        return earned - earned.mean()


def contexts(wide: Rounds) -> tuple[np.ndarray, list[list[str]]]:
    """What peers see of a round: every distinct column of all arms and an intercept, and for VowpalWabbit each arm's row."""
    n = len(wide)
    flat = wide.rows.reshape(n, -1)
    varies = [j for j in range(flat.shape[1]) if flat[:, j].std() > 0]
    _, first = np.unique(flat[:, varies].round(12), axis=1, return_index=True) if varies else (None, [])
    shared = np.column_stack([np.ones(n), flat[:, [varies[j] for j in sorted(first)]]])
    k = len(wide.arms)
    lines = [
        [f"|a arm{a} |f " + " ".join(f"f{j}:{x:.6g}" for j, x in enumerate(wide.rows[t, a]) if x != 0.0) for a in range(k)]
        for t in range(n)
    ]
    return shared, lines


class Mabwiser:
    def __init__(self, policy, k: int, seed: int) -> None:
        from mabwiser.mab import MAB

        self.mab = MAB(arms=list(range(k)), learning_policy=policy, seed=seed)
        self.rng, self.k, self.seen = np.random.default_rng(seed), k, []
        self.fitted = False

    def choose(self, x, t: int, line) -> int:
        # It must be fitted before it predicts: the first rounds are played at random.
        return int(self.mab.predict(x[t : t + 1])) if self.fitted else int(self.rng.integers(self.k))

    def learn(self, x, t: int, arm: int, reward: float, line) -> None:
        if self.fitted:
            self.mab.partial_fit([arm], [reward], x[t : t + 1])
            return
        self.seen.append((arm, reward, x[t]))
        if len(self.seen) >= 10:
            arms, rewards, rows = zip(*self.seen)
            self.mab.fit(list(arms), list(rewards), np.array(rows))
            self.fitted = True


class Contextualbandits:
    def __init__(self, policy, k: int) -> None:
        self.policy, self.k = policy, k

    def choose(self, x, t: int, line) -> int:
        return int(self.policy.predict(x[t : t + 1])[0]) if self.policy.is_fitted else t % self.k

    def learn(self, x, t: int, arm: int, reward: float, line) -> None:
        self.policy.partial_fit(x[t : t + 1], np.array([arm]), np.array([reward]))


class Obp:
    def __init__(self, policy) -> None:
        self.policy = policy

    def choose(self, x, t: int, line) -> int:
        return int(self.policy.select_action(x[t : t + 1])[0])

    def learn(self, x, t: int, arm: int, reward: float, line) -> None:
        self.policy.update_params(arm, reward, x[t : t + 1])


class Vowpal:
    def __init__(self, options: str, k: int, seed: int) -> None:
        import vowpalwabbit

        # Every feature also for each arm by itself, as the linear policies have it.
        self.vw = vowpalwabbit.Workspace(f"--cb_explore_adf {options} -q af --quiet --random_seed {seed}")
        self.rng, self.k, self.chance = np.random.default_rng(seed), k, None

    def choose(self, x, t: int, line) -> int:
        example = self.vw.parse("\n".join(line))
        chances = np.array(self.vw.predict(example))
        self.vw.finish_example(example)
        self.chance = chances / chances.sum()
        return int(self.rng.choice(self.k, p=self.chance))

    def learn(self, x, t: int, arm: int, reward: float, line) -> None:
        labelled = [f"0:{-reward}:{self.chance[arm]} {row}" if a == arm else row for a, row in enumerate(line)]
        example = self.vw.parse("\n".join(labelled))
        self.vw.learn(example)
        self.vw.finish_example(example)


def peer(name: str, k: int, d: int, seed: int):
    from contextualbandits.online import LinUCB
    from mabwiser.mab import LearningPolicy
    from obp import policy as obp

    return {
        "MABWiser LinUCB": lambda: Mabwiser(LearningPolicy.LinUCB(alpha=1.0), k, seed),
        "MABWiser LinTS": lambda: Mabwiser(LearningPolicy.LinTS(alpha=1.0), k, seed),
        "contextualbandits LinUCB": lambda: Contextualbandits(LinUCB(nchoices=k, alpha=1.0, random_state=seed + 1), k),
        "VowpalWabbit epsilon": lambda: Vowpal("--epsilon 0.1", k, seed),
        "VowpalWabbit squarecb": lambda: Vowpal("--squarecb", k, seed),
        "obp LinUCB": lambda: Obp(obp.LinUCB(dim=d, n_actions=k, epsilon=1.0, random_state=seed)),
        "obp LinTS": lambda: Obp(obp.LinTS(dim=d, n_actions=k, random_state=seed)),
    }[name]()


def play(name: str, rounds: Rounds, wide: Rounds, seed: int) -> list[int]:
    """The arms of a peer, which learns from every reward that is known of what it plays."""
    x, lines = contexts(wide)
    policy, arms = peer(name, len(wide.arms), x.shape[1], seed), []
    for t in range(len(rounds)):
        arm = policy.choose(x, t, lines[t])
        arms.append(arm)
        reward = rounds.observed(t, arm)
        if reward is not None:
            policy.learn(x, t, arm, reward, lines[t])
    return arms


class Programs:
    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.work = folder, work

    def client(self, *arguments: object) -> str:
        command = [self.folder / "helba-client", "data", *map(str, arguments)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout

    def convert(self, file: Path, schema: Path, *more: object) -> Path:
        out = self.work / f"rounds-{len(list(self.work.iterdir()))}.csv"
        self.client("convert", file, "--schema", schema, *more, "--output", out)
        return out

    def ours(self, rounds: Rounds) -> list[int]:
        command = [self.folder / "examples" / "decisions", str(rounds.path)]
        return [int(arm) for arm in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()]

    def written(self, name: str, text: str) -> Path:
        path = self.work / name
        path.write_text(text)
        return path


def purchases(programs: Programs, name: str):
    schema = programs.written(
        f"{name}.toml",
        'layout = "wide"\nchosen = "choice"\nuser = "id"\nidentity = true\nprevious = true\n[candidate]\nfeat = "none"\nprice = "max"\n',
    )
    rounds = Rounds(programs.convert(ROOT / "data" / f"{name}.csv", schema))
    yield rounds, rounds, 0


def foreign(programs: Programs, file: str, schema: str | None = None):
    own = ROOT / "data" / "foreign" / (file.split(".")[0] + ".toml")
    schema = programs.written(f"{len(list(programs.work.iterdir()))}.toml", schema) if schema else own
    rounds = Rounds(programs.convert(ROOT / "data" / "foreign" / file, schema))
    yield rounds, rounds, 0


def trial(programs: Programs, seeds: int):
    """Two treatments of success 0.70 and 0.95 for 600 patients."""
    chances = np.array([0.70, 0.95])
    for seed in range(seeds):
        hits = np.random.default_rng(seed).random((600, 2)) < chances
        lines = ["reward.a,reward.b,dose.a,dose.b", *(f"{int(a)},{int(b)},1,1" for a, b in hits)]
        file = programs.written(f"trial{seed}.csv", "\n".join(lines) + "\n")
        schema = programs.written("trial.toml", 'layout = "wide"\nreward = "reward.{candidate}"\nidentity = true\n')
        rounds = Rounds(programs.convert(file, schema), np.tile(chances, (600, 1)))
        yield rounds, rounds, 300


def treatments(programs: Programs, seeds: int):
    """2,000 patients with 12 features, of which each of 5 treatments has weights of its own: success by the logistic function."""
    d, k, n = 12, 5, 2000
    weights = np.random.default_rng(60).normal(0.0, 1.2, (k, d))
    names = [f"f{i}" for i in range(d)]
    pairs = ", ".join(f'["candidate", "{name}"]' for name in names)
    plain = ", ".join(f'{name} = "none"' for name in names)
    schema = programs.written(
        "treatments.toml",
        f'layout = "wide"\nreward = "reward.{{candidate}}"\ninteractions_only = true\ninteractions = [{pairs}]\ncontext = {{ {plain} }}\n',
    )
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        x = np.column_stack([np.ones(n), rng.uniform(-1.0, 1.0, (n, d - 1))])
        expected = 1.0 / (1.0 + np.exp(-x @ weights.T))
        hits = rng.random((n, k)) < expected
        header = ",".join([*names, *(f"reward.{a}" for a in "abcde")])
        lines = [",".join([*(f"{v:.4f}" for v in row), *map(str, hit)]) for row, hit in zip(x, hits.astype(int))]
        file = programs.written(f"treatments{seed}.csv", "\n".join([header, *lines]) + "\n")
        rounds = Rounds(programs.convert(file, schema), expected)
        yield rounds, rounds, n // 2


class Visits:
    """A history of 20,000 generated visits, and what it teaches: a score, and the scales of all features."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        history, truth = programs.work / "history.csv", programs.work / "truth.csv"
        logged = programs.written("visits.toml", programs.client("generate", history, "--truth", truth, "--seed", 0))
        self.score = programs.written("score.json", programs.client("transform", history, "--schema", logged, "--supervised"))
        self.plain = programs.written("plain.json", programs.client("transform", history, "--schema", logged))
        # The new visits have the rewards of all offers.
        known = [line for line in logged.read_text().splitlines() if line.split(" ")[0] not in ("chosen", "reward", "propensity")]
        known.insert(1, 'reward = "reward.{candidate}"')
        self.schema = programs.written("known.toml", "\n".join(known) + "\n")

    def generated(self, seed: int) -> tuple[Path, Path]:
        """2,000 new visits, and the expected reward and the reward of every offer."""
        log, truth = (self.programs.work / f"{name}{seed}.csv" for name in ("new", "truth"))
        self.programs.client("generate", log, "--truth", truth, "--rounds", 2000, "--seed", seed)
        return log, truth

    def rounds(self, seed: int) -> tuple[Rounds, Rounds]:
        """The same with score features, and with all features."""
        log, truth = self.generated(seed)
        with open(log, newline="") as a, open(truth, newline="") as b:
            rows, truths = list(csv.reader(a)), list(csv.DictReader(b))
        arms = [name.split(".", 1)[1] for name in truths[0] if name.startswith("reward.")]
        end = rows[0].index("rule")
        header = ",".join([*rows[0][:end], *(f"reward.{arm}" for arm in arms)])
        lines = [",".join([*row[:end], *(t[f"reward.{arm}"] for arm in arms)]) for row, t in zip(rows[1:], truths)]
        file = self.programs.written(f"known{seed}.csv", "\n".join([header, *lines]) + "\n")
        expected = np.array([[float(t[f"expected.{arm}"]) for arm in arms] for t in truths])
        few, wide = (Rounds(self.programs.convert(file, self.schema, "--transform", t), expected) for t in (self.score, self.plain))
        return few, wide


def visits(programs: Programs, seeds: int):
    """A history teaches the score; then 2,000 new visits, of which the second half counts."""
    files = Visits(programs)
    for seed in range(1, seeds + 1):
        yield *files.rounds(seed), 1000


def visits_scored(programs: Programs, seeds: int):
    """The same visits, and all learn with the score features."""
    for few, _, first in visits(programs, seeds):
        yield few, few, first


def visits_all(programs: Programs, seeds: int):
    """The same visits, and all learn with all features."""
    for _, wide, first in visits(programs, seeds):
        yield wide, wide, first


CARS = """layout = "wide"
pattern = "{feature}{candidate}"
chosen = "choice"
chosen_pattern = "choice{candidate}"
interactions = [["college", "type"], ["college", "fuel"], ["hsg2", "type"], ["hsg2", "fuel"], ["coml5", "type"], ["coml5", "fuel"]]
candidate = { type = "one-hot", fuel = "one-hot", price = "min-max", range = "min-max", acc = "min-max", speed = "min-max", pollution = "min-max", size = "min-max", space = "min-max", cost = "min-max", station = "min-max" }
context = { college = "none", hsg2 = "none", coml5 = "none" }
"""
RATINGS = """layout = "long"
user = "user_id"
time = "timestamp"
arms = 4
reward = "stars"
reward_range = [1, 5]
interactions = [["age", "genre"], ["age", "film"]]
project = { features = FEATURES, by = "random", seed = 1 }
candidate = { genre = "one-hot", film = "hash:40", year = "min-max", minutes = "min-max" }
context = { age = "min-max" }
"""
LOGGED = """layout = "dsjson"
candidates = ["yoplait", "dannon", "hiland", "weight"]
user = "user.id"
time = "Timestamp"
previous = true
interactions = [["brand.name", "brand.price"], ["brand.name", "brand.feat"], ["brand.name", "user.id"]]
interactions_only = true
[candidate]
"brand.name" = "one-hot"
"brand.feat" = "none"
"brand.price" = "max"
[context]
"user.id" = "hash:8"
"""


def best_fixed(rounds: Rounds, first: int) -> float:
    return max(rounds.earned([arm] * len(rounds), first) for arm in range(len(rounds.arms)))


def possible(rounds: Rounds, first: int) -> float:
    """What a player earns who knows the expected rewards; of logged actions, the largest reward."""
    return 1.0 if rounds.logged else float(rounds.expected.max(axis=1)[first:].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=ROOT / "target" / "release")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--files", nargs="*")
    parser.add_argument(
        "--keep", type=Path, default=ROOT / "lab" / "peers" / "kept", help="folder of results; what other libraries have played there is not played again"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "peers.md")
    options = parser.parse_args()
    torch = types.ModuleType("torch")
    torch.Tensor = type("Tensor", (), {})
    learners = types.ModuleType("obp.policy.offline")
    learners.IPWLearner = learners.NNPolicyLearner = None
    sys.modules.update({"torch": torch, "obp.policy.offline": learners})
    options.keep.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(options.programs.resolve(), Path(folder))
        files = {
            "Yogurt": lambda: purchases(programs, "Yogurt"),
            "Cracker": lambda: purchases(programs, "Cracker"),
            "visits": lambda: visits(programs, options.seeds),
            "visits-scored": lambda: visits_scored(programs, options.seeds),
            "trial": lambda: trial(programs, options.seeds),
            "ratings": lambda: foreign(programs, "ratings.csv"),
            "logged": lambda: foreign(programs, "logged.json"),
            "treatments": lambda: treatments(programs, options.seeds),
            "visits-all": lambda: visits_all(programs, options.seeds),
            "cars": lambda: foreign(programs, "cars.csv", CARS),
            "ratings-48": lambda: foreign(programs, "ratings.csv", RATINGS.replace("FEATURES", "48")),
            "ratings-64": lambda: foreign(programs, "ratings.csv", RATINGS.replace("FEATURES", "64")),
            "logged-all": lambda: foreign(programs, "logged.json", LOGGED),
        }
        for file, runs in files.items():
            if options.files and file not in options.files:
                continue
            kept = options.keep / f"{file}.json"
            # What other libraries earn stays what it was; what we earn is computed anew.
            cells = json.loads(kept.read_text()) if kept.exists() else {}
            several = file in SEVERAL
            margins = []
            for name in ("ours", "best fixed", "possible"):
                cells[name] = []
            for run, (rounds, wide, first) in enumerate(runs()):
                own = programs.ours(rounds)
                cells["ours"].append(rounds.earned(own, first))
                cells["best fixed"].append(best_fixed(rounds, first))
                cells["possible"].append(possible(rounds, first))
                for name in PEERS:
                    before = cells.setdefault(name, [])
                    # A file that is one run is played with several seeds by those who draw.
                    for seed in range(len(before), run + 1 if several else min(options.seeds, 3)):
                        arms = play(name, rounds, wide, seed)
                        before.append(rounds.earned(arms, first))
                        margins.append(half_width(rounds.terms(own, first) - rounds.terms(arms, first)))
                        print(f"{file} {name} {before[-1]:.4f}", file=sys.stderr, flush=True)
            if not several and margins:
                cells["margin"] = max(margins)
            for name, values in cells.items():
                cells[name] = round(values, 4) if name == "margin" else [round(value, 4) for value in values]
            kept.write_text(json.dumps(cells, indent=1) + "\n")
    missing = [name for name in (*SHOWN, *WIDE, "wide", "encrypted") if not (options.keep / f"{name}.json").exists()]
    if missing:
        print(f"no page yet: {', '.join(missing)} not kept in {options.keep}", file=sys.stderr)
    else:
        options.output.write_text(page(options.keep))


def half_width(values) -> float:
    """Of the 95 % interval of a mean, by Student's t."""
    n = len(values)
    return float(student.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else 0.0


def page(kept: Path) -> str:
    """The page of the results that are kept."""
    results = {file: json.loads((kept / f"{file}.json").read_text()) for file in (*SHOWN, *WIDE)}
    columns = ["ours", *PEERS, "best fixed", "possible"]

    def cell(values: list[float]) -> str:
        half = half_width(values)
        return f"{np.mean(values):.3f}" + (f" ± {half:.3f}" if half >= 0.0005 else "")

    def table(shown: dict[str, str]) -> str:
        lines = [f"| file | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        lines += [f"| {title} | " + " | ".join(cell(results[file][name]) for name in columns) + " |" for file, title in shown.items()]
        return "\n".join(lines)

    titles = {**SHOWN, **WIDE}
    margins = ", ".join(f"{cells['margin']:.3f} ({titles[file]})" for file, cells in results.items() if "margin" in cells)
    pins = dict(line.split("==") for line in Path(__file__).with_name("requirements.txt").read_text().split())
    libraries = ", ".join(f"{name} {pins[name]}" for name in ("mabwiser", "contextualbandits", "vowpalwabbit", "obp"))
    values = {
        "TABLE": table(SHOWN),
        "WIDE": table(WIDE),
        "SEEDS": str(len(results["visits"]["ours"])),
        "MARGINS": margins,
        "LIBRARIES": libraries,
        "STAGED": staged(json.loads((kept / "wide.json").read_text())),
        "ENCRYPTED": encrypted(json.loads((kept / "encrypted.json").read_text()), results["visits"]),
    }
    text = TEXT
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def staged(found: dict) -> str:
    """What `wide.py` has found."""
    lines = [
        f"| {title} | {run['rounds']} | {run['hit_rate_encrypted']:.3f} | {run['hit_rate_clear']:.3f} | {run['hit_rate_random']:.3f} "
        f"| {100 * run['agreement']:.1f} % | {run['resolved_alike']} of {run['resolved']} |"
        for title, run in ((WIDE[file], found[file]) for file in WIDE if file in found)
    ]
    return "\n".join(lines)


def encrypted(found: dict, visits: dict) -> str:
    """What `encrypted.py` has found, beside what others earn on the same visits."""
    others = max(visits[name][found["seed"] - 1] for name in PEERS)
    return (
        f"| {found['keys']} keys "
        f"| {found['earned']:.3f} | {found['clear twin']:.3f} | {others:.3f} | {found['possible']:.3f} "
        f"| {found['same arm as the twin']} of {found['rounds']} | {found['unreliable']} |"
    )


TEXT = """# Beside other libraries

Mean rewards of the algorithm of the encrypted bandit (`ours`: in the clear, with the parameters of a new bandit, and the features that keys carry) and of four libraries with their default parameters, which learn online from the rewards of what they play.
This page is generated from `lab/peers/kept` by `lab/peers/peers.py`:

```sh
cargo build --release -p user-client -p helba-lab --example decisions --bin helba-client
python3 -m venv venv && venv/bin/pip install --no-deps -r lab/peers/requirements.txt
venv/bin/python lab/peers/peers.py --programs target/release --seeds SEEDS
```

Versions: LIBRARIES; `lab/peers/requirements.txt` pins what they need.

TABLE

| file | rounds | counted |
|---|---|---|
| purchases | [data/](../data/README.md): all rewards are known, 1 for the brand that was bought; brand, feature, price and last choice | all rounds |
| generated visits | `helba-client data generate`: 4 offers, 45 features. `ours` has the five score features that 20,000 earlier visits teach (`data transform --supervised`); the others have all features, and learn on the same 2,000 new visits | expected reward of the second 1,000 of 2,000, SEEDS seeds |
| the same with score features | all have the five score features | the same |
| two-armed trial | successes 0.70 and 0.95, no features but the arm | expected reward of the second 300 of 600, SEEDS seeds |
| ratings log, logged bandit | [data/foreign/](../data/foreign/README.md); of the logged bandit the rounds in which the action is the logged one, weighted by 1 divided by its probability: about 100 of 400, from which alone policies learn | all rounds |

± is the half width of the 95 % interval of the mean over seeds: SEEDS, but 3 for files that are one run; without it, the runs of a policy are alike. Purchases, ratings and logged rounds are one sample each. The largest half width of the 95 % interval of the difference between `ours` and another policy, over rounds
that are taken to be independent, is MARGINS: smaller differences say nothing.

Policies see for each arm its row of features; those that take one context for all arms see the distinct columns of all rows, and learn each arm by itself. `best fixed` is the best arm in hindsight, and `possible` the mean of the largest reward of each round, or of the largest expected reward where the truth is known (1 for logged rounds). What others earn is kept in `lab/peers/kept`; without this folder they play again.

## More features than 16

All learn with the same features: `ours` is the same algorithm in the clear.

WIDE

| file | rounds | counted |
|---|---|---|
| 60 features, 5 treatments | made up: 2,000 patients with 12 features, of which each treatment has weights of its own; success by the logistic function of their sum | expected reward of the second 1,000, SEEDS seeds |
| generated visits | all 45 features; what the others play is the same as above | as above |
| cars | the first 300 choices; all columns, and the products of the person's with body and fuel | all rounds |
| ratings log | genre, title in 40 buckets, year, length, and their products with age, by random signs to 48 and 64 features | all rounds |
| logged bandit | the products of brand with price, display and one of eight groups of customers | as above |

On ciphertexts `lab/peers/wide.py` plays each file once whose rewards are all known, with production keys of `--exchanges staged`; of those that are made up the first seed. Rewards are means of what was earned in all rounds.
`Same arm` is the share of rounds in which the arm has the largest index of exact arithmetic on the same history. In the rounds *beyond the resolution* no second arm is as near as the comparison resolves. `In the clear` is the same algorithm with a history of its
own. These are the first rounds of each file: a mean of n rounds has a random error of up to 1/√n.

```sh
cargo build --release --example quickstart --bin helba-client
venv/bin/python lab/peers/wide.py --programs target/release
```

| file | rounds | encrypted | in the clear | at random | same arm | beyond the resolution |
|---|---:|---:|---:|---:|---:|---:|
STAGED

## On ciphertexts

`lab/peers/encrypted.py` plays the 2,000 visits of the first seed on an encrypted bandit, with keys, server and [agent](agent.md) as processes of their own. The application sends values by name, and the agent makes score features of them. Counted is the expected reward of the second 1,000. The twin in the clear learns from a batch as soon as it
has ended; the encrypted bandit decides with the model before it while the server updates. Answers out of their range are *unreliable*. `same arm` counts the rounds in which both play the same one.

```sh
cargo build --release --bin helba-keygen --bin helba-server --bin helba-agent --bin helba-client
venv/bin/python lab/peers/encrypted.py --programs target/release
```

| keys | encrypted | in the clear | best of the other libraries, all features | possible | same arm | unreliable |
|---|---|---|---|---|---|---|
ENCRYPTED
"""

if __name__ == "__main__":
    main()
