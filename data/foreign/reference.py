"""Computes from the files of this folder what `helba-client data evaluate` computes, in numpy and independently.

    python3 reference.py            compares with reference.json, and fails if a number is off by more than 1e-9
    python3 reference.py --write    writes reference.json, with which tests of the program compare

It reads the files by itself: no line here is translated from the program. OFUL is that of Abbasi-Yadkori, Pal and
Szepesvari (lambda = 1, width 0.5); UCB1 that of Auer, Cesa-Bianchi and Fischer; the estimates are defined on the first
page of crates/evaluation.
"""

import csv
import json
import math
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def one_hot(values):
    names = sorted(set(values.ravel()))
    return np.stack([values == name for name in names], axis=-1).astype(float)


def min_max(values):
    return ((values - values.min()) / (values.max() - values.min()))[..., None]


def divided(rows):
    """Rows divided by the length of the longest, none longer than 1."""
    rows = rows / np.linalg.norm(rows, axis=-1).max()
    return rows / np.maximum(1, np.linalg.norm(rows, axis=-1))[..., None]


def cars():
    """Features (rounds, arms, d) and rewards (rounds, arms)."""
    table = list(csv.DictReader(open(HERE / "cars.csv")))
    column = lambda name: np.array([[row[f"{name}{car}"] for car in range(1, 7)] for row in table])
    number = lambda name: min_max(column(name).astype(float))
    # Alphabetical, as features are: fuel, price, range, type.
    wide = np.concatenate([one_hot(column("fuel")), number("price"), number("range"), one_hot(column("type"))], axis=-1)
    flat = wide.reshape(-1, wide.shape[-1])
    values, vectors = np.linalg.eigh(flat.T @ flat / len(flat))
    largest = vectors[:, np.argsort(-values)[:8]].T
    largest *= np.sign(largest[np.arange(8), np.abs(largest).argmax(axis=1)])[:, None]
    kept = np.sort(values)[-8:].sum() / values.sum()
    rewards = np.array([[row["choice"] == f"choice{car}" for car in range(1, 7)] for row in table], float)
    return divided(wide @ largest.T), rewards, kept


def split_mix(seed):
    mask = (1 << 64) - 1
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        yield z ^ z >> 31


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def ratings():
    evenings = {}
    for row in csv.DictReader(open(HERE / "ratings.csv"), delimiter=";"):
        evenings.setdefault((row["user_id"], row["timestamp"]), []).append(row)
    kept = [rows for rows in evenings.values() if len(rows) == 4]
    column = lambda name: np.array([[row[name] for row in rows] for rows in kept])
    film = np.zeros((len(kept), 4, 12))
    for t, rows in enumerate(kept):
        for arm, row in enumerate(rows):
            film[t, arm, fnv(row["film"]) % 12] = 1
    genre, age = one_hot(column("genre")), min_max(column("age").astype(float))
    wide = np.concatenate([film, genre, age, age * genre], axis=-1)
    words = split_mix(1)
    signs = np.array([[-1.0 if next(words) & 1 else 1.0 for _ in range(wide.shape[-1])] for _ in range(12)])
    return divided(wide @ signs.T / math.sqrt(12)), (column("stars").astype(float) - 1) / 4


def logged():
    """Features, and the logged actions with rewards and probabilities."""
    lines = [json.loads(line) for line in open(HERE / "logged.json")]
    value = lambda name: np.array([[c["brand"][name] for c in line["c"]["_multi"]] for line in lines])
    actions = np.array([line["_labelIndex"] for line in lines])
    last, previous = {}, np.zeros((len(lines), 4, 1))
    for t, line in enumerate(lines):
        user = line["c"]["user"]["id"]
        if user in last:
            previous[t, last[user]] = 1
        last[user] = actions[t]
    price = value("price").astype(float)[..., None]
    feat = value("feat").astype(float)[..., None]
    # Alphabetical: brand.feat, brand.name, brand.price, then the last choice.
    wide = np.concatenate([feat, one_hot(value("name")), price / np.abs(price).max(), previous], axis=-1)
    rewards = np.array([-line["_label_cost"] for line in lines])
    chances = np.array([line["_label_probability"] for line in lines])
    return divided(wide), actions, rewards, chances


class Oful:
    def __init__(self, d):
        self.design, self.moment = np.eye(d), np.zeros(d)

    def decide(self, rows):
        inverse = np.linalg.inv(self.design)
        width = np.sqrt(np.einsum("ki,ij,kj->k", rows, inverse, rows))
        return first_best(rows @ (inverse @ self.moment) + 0.5 * width)

    def learn(self, x, arm, reward):
        self.design += np.outer(x, x)
        self.moment += reward * x


class Ucb1:
    def __init__(self, k):
        self.pulls, self.sums = np.zeros(k), np.zeros(k)

    def decide(self, rows):
        if (self.pulls == 0).any():
            return int(np.argmin(self.pulls))
        return first_best(self.sums / self.pulls + np.sqrt(2 * math.log(self.pulls.sum() + 1) / self.pulls))

    def learn(self, x, arm, reward):
        self.pulls[arm] += 1
        self.sums[arm] += reward


def first_best(index):
    """The first index that is the largest but for rounding: equal rows tie in the program too."""
    return int(np.flatnonzero(index >= index.max() - 1e-12)[0])


def stated(terms):
    terms = np.asarray(terms, float)
    return {"value": terms.mean(), "standard_error": terms.std() / math.sqrt(len(terms))}


def replay(policy, features, rewards):
    terms = []
    for rows, reward in zip(features, rewards):
        arm = policy.decide(rows)
        policy.learn(rows[arm], arm, reward[arm])
        terms.append(reward[arm])
    return terms


def replayed(features, rewards, fixed):
    """The figures of a file whose rewards are all known."""
    out = {
        "rounds": len(rewards),
        "first": features[0].ravel().tolist(),
        "norm": float(np.linalg.norm(features)),
        "oful": stated(replay(Oful(features.shape[-1]), features, rewards)),
        "uniform": stated(rewards.mean(axis=1)),
    }
    if fixed:
        best = int(rewards.sum(axis=0).argmax())
        out[f"always {best + 1}"] = stated(rewards[:, best])
        out["ucb1"] = stated(replay(Ucb1(rewards.shape[1]), features, rewards))
    return out


def estimated(chosen, predicted, actions, rewards, chances):
    """IPS, SNIPS and doubly robust; `chosen` holds the probabilities of the policy, (rounds, arms)."""
    rounds = np.arange(len(actions))
    weights = chosen[rounds, actions] / chances
    robust = (chosen * predicted).sum(axis=1) + weights * (rewards - predicted[rounds, actions])
    return {
        "ips": float((weights * rewards).mean()),
        "snips": float((weights * rewards).sum() / weights.sum()),
        "effective": float(weights.sum() ** 2 / (weights**2).sum()),
        **stated(robust),
    }


def logged_figures():
    features, actions, rewards, chances = logged()
    n, k, d = features.shape
    predicted = np.zeros((n, k))
    design, moment = np.eye(d), np.zeros(d)
    for t in range(n):
        predicted[t] = features[t] @ np.linalg.solve(design, moment)
        x = features[t, actions[t]]
        design += np.outer(x, x)
        moment += rewards[t] * x
    out = {"rounds": n, "first": features[0].ravel().tolist(), "norm": float(np.linalg.norm(features))}

    def follow(policy):
        chosen = np.zeros((n, k))
        for t in range(n):
            arm = policy.decide(features[t])
            chosen[t, arm] = 1
            if arm == actions[t]:
                policy.learn(features[t, arm], arm, rewards[t])
        return chosen

    policies = {"oful": follow(Oful(d)), "ucb1": follow(Ucb1(k)), "uniform": np.full((n, k), 1 / k)}
    always = [np.tile(np.eye(k)[arm], (n, 1)) for arm in range(k)]
    values = [estimated(chosen, predicted, actions, rewards, chances)["value"] for chosen in always]
    best = int(np.argmax(values))
    policies["always " + ["yoplait", "dannon", "hiland", "weight"][best]] = always[best]
    for name, chosen in policies.items():
        out[name] = estimated(chosen, predicted, actions, rewards, chances)
    out["logged policy"] = stated(rewards)
    return out


def figures():
    features, rewards, kept = cars()
    return {
        "maker": "data/foreign/reference.py, numpy",
        "cars": {**replayed(features, rewards, True), "mean_square_kept": float(kept)},
        "ratings": replayed(*ratings(), False),
        "logged": logged_figures(),
    }


def compare(path, ours, theirs):
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), path
        for name in ours:
            compare(f"{path}/{name}", ours[name], theirs[name])
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), path
        for i, pair in enumerate(zip(ours, theirs)):
            compare(f"{path}/{i}", *pair)
    elif isinstance(ours, float):
        assert abs(ours - theirs) < 1e-9, f"{path}: {ours} here, {theirs} in reference.json"
    else:
        assert ours == theirs, path


if __name__ == "__main__":
    got, file = figures(), HERE / "reference.json"
    if "--write" in sys.argv:
        file.write_text(json.dumps(got, indent=1) + "\n")
    compare("", got, json.loads(file.read_text()))
    print("reference.json holds what numpy computes")
