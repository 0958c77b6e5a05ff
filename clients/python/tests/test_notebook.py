"""The notebook, cell by cell, without Jupyter: its cells are one program."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Bundles, Server

NOTEBOOK = ROOT / "clients" / "python" / "notebooks" / "visits.ipynb"

RUN = """
import ast, json, sys
kept = {"__name__": "__main__"}
for cell in json.load(open(sys.argv[1], encoding="utf-8")):
    tree = ast.parse(cell)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), kept)
    if last is not None:
        # As a notebook shows the last expression of a cell.
        shown = eval(compile(ast.Expression(last.value), "cell", "eval"), kept)
        if shown is not None:
            print(repr(shown))
"""


def test_the_notebook(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("pandas")
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    # Committed without results, which would be those of one machine.
    assert all(not cell.get("outputs") for cell in notebook["cells"]) and all(ast.parse(cell) for cell in cells)
    said_sizes = "--features 6 --arms 3"
    assert any(said_sizes in "".join(cell["source"]) for cell in notebook["cells"])
    bundles = Bundles(tmp_path, 6, 3)
    server = Server(tmp_path / "state", "--keys", bundles.public)
    request.addfinalizer(server.kill)
    (tmp_path / "cells.json").write_text(json.dumps(cells), encoding="utf-8")
    names = {"HELBA_URL": server.url, "HELBA_BUNDLE": str(bundles.secret)}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "cells.json")],
        capture_output=True, text=True, timeout=300, cwd=tmp_path, env={**os.environ, **names},
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "400 rounds of 3 candidates (tea, juice, water); 0 rounds dropped" in said, said
    first, last = (float(said.split(f"the {which} hundred: ")[1].split()[0]) for which in ("first", "last"))
    assert last > 0.6 and last >= first, said
    assert "Status(round=16, feedbacks=16" in said and "show " in said, said
