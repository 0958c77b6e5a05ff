"""Plays the files of more features than 16 whose rewards are all known on ciphertexts, with keys of `--exchanges staged`, a server and a raiser.

    cargo build --release --example quickstart --bin helba-client
    venv/bin/python lab/peers/wide.py --programs target/release

Each file is played once by the example `quickstart`, in the order of its rounds; of those that are made up, the first seed. It writes
`kept/wide.json`, file by file, which `peers.py` puts on its page. The virtual environment is that of `peers.py`.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from peers import CARS, RATINGS, ROOT, Programs, foreign, treatments, visits_all

KEPT = [
    *("rounds", "features", "arms", "hit_rate_encrypted", "hit_rate_clear", "hit_rate_random", "agreement", "ties", "resolved"),
    *("resolved_alike", "refreshes"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=ROOT / "target" / "release")
    parser.add_argument("--rounds", type=int, default=2000, help="of each file, its first ones")
    parser.add_argument("--files", nargs="*")
    parser.add_argument("--output", type=Path, default=ROOT / "lab" / "peers" / "kept" / "wide.json")
    options = parser.parse_args()
    found = json.loads(options.output.read_text()) if options.output.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(options.programs.resolve(), Path(folder))
        files = {
            "treatments": lambda: treatments(programs, 1),
            "visits-all": lambda: visits_all(programs, 1),
            "cars": lambda: foreign(programs, "cars.csv", CARS),
            "ratings-48": lambda: foreign(programs, "ratings.csv", RATINGS.replace("FEATURES", "48")),
            "ratings-64": lambda: foreign(programs, "ratings.csv", RATINGS.replace("FEATURES", "64")),
        }
        for file, runs in files.items():
            if options.files and file not in options.files:
                continue
            rounds, _, _ = next(runs())
            command = [programs.folder / "examples" / "quickstart", "--data", rounds.path, "--rounds", options.rounds]
            command += ["--exchanges", "staged", "--json"]
            output = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout
            result = json.loads(output)
            found[file] = {name: result[name] for name in KEPT}
            options.output.write_text(json.dumps(found, indent=1) + "\n")
            print(file, found[file], flush=True)


if __name__ == "__main__":
    main()
