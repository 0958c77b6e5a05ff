"""What mypy and readers of the documentation see."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path

import helba
import pytest

HERE = Path(__file__).parent


def mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=HERE, timeout=300)


def test_programs_are_checked() -> None:
    pytest.importorskip("mypy")
    good = mypy("typed.py")
    assert good.returncode == 0, good.stdout
    bad = mypy("untyped.py")
    faults = [line for line in bad.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[1] for line in faults] == ["5", "6", "7", "8", "9"], bad.stdout


def test_the_stubs_are_those_of_the_module() -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy.stubtest", "helba", "--ignore-missing-stub"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=HERE)
    assert done.returncode == 0, done.stdout


def test_everything_public_is_documented() -> None:
    for name in helba.__all__:
        public = getattr(helba, name)
        if name in ("PROBLEMS",):
            continue
        assert public.__doc__, name
        if inspect.isclass(public):
            assert public.__module__ == "helba", name
            for member, value in vars(public).items():
                if not member.startswith("_") and not inspect.isdatadescriptor(value) and callable(value):
                    assert value.__doc__, f"{name}.{member}"
                if isinstance(value, property):
                    assert value.__doc__, f"{name}.{member}"
    page = pydoc.plain(pydoc.render_doc(helba))
    assert "one row of features for each arm" in page and "Raises KeysError if the file cannot be used" in page
