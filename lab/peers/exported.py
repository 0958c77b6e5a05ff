"""Reads an exported model with numpy, scikit-learn and MABWiser, which must give the same scores to 1e-6.

    helba-client export --server URL --secret secret.bundle --bandit ID --output model.json
    venv/bin/python lab/peers/exported.py model.json

Without a file it plays: keys, server and agent are processes of their own (`--programs target/release`, and `--toy` for keys that protect
nothing), the agent plays 96 rounds on ciphertexts, and then each arm that it plays is compared with the largest index of the exported model.
The virtual environment is that of `peers.py`.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from sklearn.linear_model import LinearRegression

ROUNDS, ARMS, FEATURES = 96, 4, 4


def of_numpy(model: dict, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimate, z and index of each row of x."""
    estimate = x @ np.array(model["omega"])
    z = np.maximum(np.sum(x @ np.array(model["inverse"]) * x, axis=1), 0)
    [(kind, bonus)] = model["bonus"].items()
    width = bonus["slope"] * z if kind == "linear" else bonus["beta"] * np.sqrt(z + bonus["c1"])
    return estimate, z, estimate + width


def of_sklearn(model: dict, x: np.ndarray) -> np.ndarray:
    """The estimate of each row."""
    regression = LinearRegression(fit_intercept=False)
    regression.coef_, regression.intercept_ = np.array(model["omega"]), 0.0
    return regression.predict(x)


def of_mabwiser(model: dict, x: np.ndarray, alpha: float) -> np.ndarray:
    """Estimate + alpha sqrt(z) of each row: LinUCB's expectation, which goes on learning from here."""
    mab = MAB([0], LearningPolicy.LinUCB(alpha=alpha, l2_lambda=model["ridge"]))
    mab.fit([0], [0.0], np.zeros((1, x.shape[1])))
    arm = mab._imp.arm_to_model[0]
    arm.A_inv = np.array(model["inverse"])
    arm.A, arm.beta = np.linalg.inv(arm.A_inv), np.array(model["omega"])
    arm.Xty = arm.A @ arm.beta
    return np.array([expected[0] for expected in mab.predict_expectations(x)])


def compare(model: dict) -> dict:
    """The largest differences over 1,000 rows of features within the bound."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1000, model["features"]))
    x *= model["context_bound"] / np.linalg.norm(x, axis=1, keepdims=True)
    estimate, z, index = of_numpy(model, x)
    [(kind, bonus)] = model["bonus"].items()
    # LinUCB has a root: that of the tangent follows from z, which its width at alpha = 1 shows.
    root = of_mabwiser(model, x, 1.0) - of_mabwiser(model, x, 0.0)
    width = bonus["slope"] * root**2 if kind == "linear" else bonus["beta"] * np.sqrt(root**2 + bonus["c1"])
    found = {
        "scikit-learn, estimate": np.abs(of_sklearn(model, x) - estimate).max(),
        "mabwiser, estimate": np.abs(of_mabwiser(model, x, 0.0) - estimate).max(),
        "mabwiser, index": np.abs(of_mabwiser(model, x, 0.0) + width - index).max(),
    }
    return {name: float(far) for name, far in found.items()}


def play(programs: Path, toy: bool) -> tuple[dict, dict]:
    """The model after rounds on ciphertexts, and how the arms after it agree with the model."""
    from encrypted import Application, Program

    theta, rng = np.array([0.6, -0.4, 0.3, 0.2]), np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as folder:
        of = Path(folder)
        public, secret = of / "public.bundle", of / "secret.bundle"
        flags = ["--toy"] if toy else []
        size = ["--features", FEATURES, "--arms", ARMS]
        create = [programs / "helba-keygen", "create", *size, *flags, "--public", public, "--secret", secret]
        subprocess.run(list(map(str, create)), check=True, stdout=subprocess.DEVNULL)
        server = [programs / "helba-server", *flags, "--keys", public, "--state", of / "state", "--listen", "127.0.0.1:0"]
        with Program(*server) as at:
            agent = [programs / "helba-agent", *flags, "--server", f"http://{at.address}", "--secret", secret]
            with Program(*agent, "--state", of / "agent", "--listen", "127.0.0.1:0") as near:
                app = Application(near.address, (of / "agent" / "agent.token").read_text().strip())
                bandit = app.ask("POST", "", {"features": FEATURES, "arms": ARMS})["id"]

                def rounds(count: int, learns: bool) -> list:
                    played = []
                    for _ in range(count):
                        x = rng.normal(size=(ARMS, FEATURES))
                        x /= np.linalg.norm(x, axis=1, keepdims=True)
                        decided = app.ask("POST", f"/{bandit}/decisions", {"contexts": x.tolist()})
                        played.append((x, decided["arm"]))
                        if learns:
                            reward = float(x[decided["arm"]] @ theta)
                            app.ask("POST", f"/{bandit}/decisions/{decided['decision']}/feedback", {"reward": reward})
                    return played

                rounds(ROUNDS, True)
                app.ask("PUT", f"/{bandit}/frozen", {"frozen": True})
                model = app.ask("GET", f"/{bandit}/model")
                played = rounds(50, False)
    short = [of_numpy(model, x)[2] for x, _ in played]
    short = [float(index.max() - index[arm]) for index, (_, arm) in zip(short, played)]
    return model, {"same arm": sum(far < 1e-9 for far in short), "of": len(short), "furthest short": max(short)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--programs", type=Path, default=Path("target/release"))
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--kept", type=Path, help="the file that the result is written to")
    given = parser.parse_args()
    played = None
    if given.model:
        model = json.loads(given.model.read_text())
    else:
        model, played = play(given.programs, given.toy)
    found = {"feedbacks": model["feedbacks"], "differences": compare(model), "played": played}
    print(json.dumps(found, indent=1))
    if given.kept:
        given.kept.write_text(json.dumps(found, indent=1) + "\n")
    assert max(found["differences"].values()) < 1e-6


if __name__ == "__main__":
    main()
