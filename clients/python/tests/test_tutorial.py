"""The tutorial, block by block."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROGRAMS, ROOT, Server

SETUP = "cargo build --release --bin helba-keygen --bin helba-server"
SERVER = "target/release/helba-server --keys public.bundle --state state --listen 127.0.0.1:8080 &\n"
URL = "http://127.0.0.1:8080"


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each block."""
    found = page.read_text().split("```")[1::2]
    return [(language, text) for language, _, text in (block.partition("\n") for block in found)]


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tutorial(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url, code, tables = URL, "", ""
    for language, text in blocks(ROOT / "docs" / "tutorial.md"):
        if language == "python":
            code += text
            if "helba" not in text:
                # A table, before the commands that read it.
                tables += text
                run([sys.executable, "-c", tables], tmp_path)
            continue
        assert language == "sh"
        if text.startswith(SETUP):
            # The README's commands, which built what runs here.
            readme = (ROOT / "README.md").read_text()
            assert all(command in readme for line in text.splitlines() for command in line.split(" && ")), text
            continue
        shell = text.replace(SERVER, "")
        assert shell.count("helba-server") == 0
        run(["bash", "-euc", shell.replace("target/release", str(PROGRAMS))], tmp_path)
        if SERVER in text:
            server = Server(tmp_path / "state", "--keys", tmp_path / "public.bundle")
            request.addfinalizer(server.kill)
            url = server.url
    assert url != URL and code.count(URL) == 2
    said = run([sys.executable, "-c", code.replace(URL, url)], tmp_path)
    assert "30 visits" in said and said.count(" gets ") == 12, said
    assert "feedbacks=40" in said, said


def test_the_figures_of_the_tutorial(tmp_path: Path) -> None:
    page = ROOT / "docs" / "tutorial.md"
    python, shell = blocks(page)[1][1], blocks(page)[2][1]
    run([sys.executable, "-c", python], tmp_path)
    said = run(["bash", "-euc", shell.replace("target/release", str(PROGRAMS))], tmp_path)
    mean = {line.split()[0]: line.split()[1] for line in said.splitlines() if line.startswith("helba ")}
    assert mean["helba"].startswith("0.57") and "7 features" in said, said
    assert "[always back]                         0.3675" in said, said
