"""Computes from the files of this folder what `helba-client data evaluate` computes, in numpy and independently.

    python3 reference.py            compares with reference.json, and fails if a number is off by more than 1e-9
    python3 reference.py --write    writes reference.json, with which tests of the program compare

It reads the files by itself: no line here is translated from the program. OFUL is that of Abbasi-Yadkori, Pal and
Szepesvari (lambda = 1, the tangent of width 0.5 with a floor of 1/64); UCB1 that of Auer, Cesa-Bianchi and Fischer; the estimates, the orders of rounds and
the intervals are defined on the first page of crates/evaluation and in its files `orders.rs` and `interval.rs`.
"""

import csv
import json
import math
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
RUNS = 4


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
        self.design, self.moment, self.rounds = np.eye(d), np.zeros(d), 0

    def decide(self, rows):
        inverse = np.linalg.inv(self.design)
        z = np.einsum("ki,ij,kj->k", rows, inverse, rows)
        d = len(self.moment)
        s = max(math.sqrt(d / (d + max(self.rounds, 1))), 1 / 64)
        index = rows @ (inverse @ self.moment) + 0.5 * z / (2 * s)
        # Equal arms come in an order of the round, by words of SplitMix64.
        of_round = first_word(first_word(0x74696573) ^ (self.rounds + 1))
        best = np.flatnonzero(index >= index.max() - 1e-12)
        return int(min(best, key=lambda arm: first_word(of_round ^ int(arm))))

    def learn(self, x, arm, reward):
        self.rounds += 1
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


MASK = (1 << 64) - 1


def first_word(seed):
    return next(split_mix(seed & MASK))


def round_keys(rounds):
    """A key for each round, from lists of its numbers: whole ones as int, the others as float."""
    seen, keys = {}, []
    for numbers in rounds:
        value = 0xCBF29CE484222325
        for number in numbers:
            word = number if isinstance(number, int) else math.floor(number * 2**20 + math.exp(-1))
            value = (value ^ word & MASK) * 0x100000001B3 & MASK
        equal = seen.get(value, 0)
        seen[value] = equal + 1
        keys.append((value ^ equal) * 0x100000001B3 & MASK)
    return keys


def orders(keys):
    seeds = [first_word(run + sum(keys)) for run in range(RUNS)]
    return [sorted(range(len(keys)), key=lambda i: (first_word(keys[i] ^ seed), i)) for seed in seeds]


def student(share, degrees):
    """The quantile of Student's t: T = sqrt(degrees) tan(angle), where the angle has the density of a power of its cosine."""
    points, weights = np.polynomial.legendre.leggauss(400)
    constant = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)

    def below(angle):
        at = angle / 2 * (points + 1)
        return 0.5 + constant * angle / 2 * float((weights * np.cos(at) ** (degrees - 1)).sum())

    low, high = 0.0, math.pi / 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < share else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


def stated(terms, taught=0.8, best_of=1):
    """The mean of terms (runs, rounds), with its interval of 95 %, which holds for `best_of` means at a time. `taught` is the share for
    what rounds teach."""
    terms = np.atleast_2d(np.asarray(terms, float))
    runs, n = terms.shape
    rounds, means = terms.mean(axis=0), terms.mean(axis=1)
    left = terms - rounds - means[:, None] + terms.mean()
    residual = (left**2).sum() / ((n - 1) * (runs - 1)) if runs > 1 else 0.0
    between = means.var(ddof=1) if runs > 1 else 0.0
    of_rounds = max(0.0, rounds.var(ddof=1) / n - residual / (n * runs))
    parts = [of_rounds, between / runs]
    parts[0 if of_rounds <= between else 1] += min(of_rounds, between) * taught
    variance = sum(parts)
    squares = parts[0] ** 2 / (n - 1) + parts[1] ** 2 / max(runs - 1, 1)
    half = student(1 - 0.025 / best_of, variance**2 / squares) * math.sqrt(variance) if squares > 0 else 0.0
    return {"value": terms.mean(), "half": half, "deviation": math.sqrt(between)}


def replay(policy, order, features, rewards):
    terms = np.zeros(len(rewards))
    for t in order:
        arm = policy.decide(features[t])
        policy.learn(features[t, arm], arm, rewards[t, arm])
        terms[t] = rewards[t, arm]
    return terms


def replayed(features, rewards, fixed):
    """The figures of a file whose rewards are all known."""
    keys = round_keys([[*map(float, rows.ravel()), *map(float, reward)] for rows, reward in zip(features, rewards)])
    runs = lambda policy: stated([replay(policy(), order, features, rewards) for order in orders(keys)], 1 / 3)
    out = {
        "rounds": len(rewards),
        "first": features[0].ravel().tolist(),
        "norm": float(np.linalg.norm(features)),
        "oful": runs(lambda: Oful(features.shape[-1])),
        "uniform": stated(rewards.mean(axis=1)),
    }
    if fixed:
        best = int(rewards.sum(axis=0).argmax())
        out[f"always {best + 1}"] = stated(rewards[:, best], best_of=rewards.shape[1])
        out["ucb1"] = runs(lambda: Ucb1(rewards.shape[1]))
    return out


def estimated(chosen, predicted, actions, rewards, chances, best_of):
    """IPS, SNIPS and doubly robust; `chosen` holds the probabilities of the policy, (runs, rounds, arms)."""
    rounds = np.arange(len(actions))
    weights = chosen[:, rounds, actions] / chances
    robust = (chosen * predicted).sum(axis=2) + weights * (rewards - predicted[rounds, actions])
    snips = float((weights * rewards).sum() / weights.sum())
    state = lambda terms: stated(terms, best_of=best_of)
    return {
        "ips": state(weights * rewards),
        "snips": {**state((weights * rewards - snips * weights) / weights.mean()), "value": snips},
        "weight": float(weights.mean()),
        "effective": float((weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1)).mean()),
        "direct": state((chosen * predicted).sum(axis=2)),
        **state(robust),
    }


def logged_figures():
    features, actions, rewards, chances = logged()
    n, k, d = features.shape
    numbers = lambda t, chance: [*map(float, features[t].ravel()), int(actions[t]), float(rewards[t]), float(chance)]
    out = {"rounds": n, "first": features[0].ravel().tolist(), "norm": float(np.linalg.norm(features))}
    for name, keys in [
        ("", round_keys([numbers(t, chances[t]) for t in range(n)])),
        ("direct ", round_keys([numbers(t, 0.0) for t in range(n)])),
    ]:
        wide = np.concatenate([features, np.ones((n, k, 1)), np.tile(np.eye(k), (n, 1, 1))], axis=-1)
        part = np.array([first_word(key) % 5 for key in keys])

        def model(one):
            """The predictions of the model that is fitted without this part."""
            z, r = wide[part != one, actions[part != one]], rewards[part != one]
            weighted = z if name else z / (k * chances[part != one])[:, None]
            return wide @ np.linalg.solve(np.eye(z.shape[1]) + weighted.T @ z, weighted.T @ r)

        models = [model(one) for one in range(5)]
        predicted = np.array([models[part[t]][t] for t in range(n)])

        def follow(policy):
            chosen = np.zeros((RUNS, n, k))
            for run, order in enumerate(orders(keys)):
                for one in range(5):
                    learner, words = policy(), split_mix(run)
                    for t in order:
                        arm, draw = learner.decide(features[t]), (next(words) >> 11) / 2**53
                        if part[t] == one:
                            chosen[run, t, arm] = 1
                        # All rewards of this file are 0 or 1.
                        learner.learn(features[t, arm], arm, float(draw < models[one][t, arm]))
            return chosen

        every = lambda choice: np.broadcast_to(choice, (1, n, k))
        policies = {"oful": follow(lambda: Oful(d)), "ucb1": follow(lambda: Ucb1(k)), "uniform": every(np.full((n, k), 1 / k))}
        always = [every(np.eye(k)[arm]) for arm in range(k)]
        which = "direct" if name else None
        value = lambda chosen, best_of=1: estimated(chosen, predicted, actions, rewards, chances, best_of)
        measured = lambda *chosen: value(*chosen)[which] if which else value(*chosen)
        best = int(np.argmax([measured(chosen)["value"] for chosen in always]))
        policies["always " + ["yoplait", "dannon", "hiland", "weight"][best]] = always[best]
        for policy, chosen in policies.items():
            out[name + policy] = measured(chosen, k if policy.startswith("always") else 1)
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
