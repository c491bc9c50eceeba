"""Every test runs in a folder of its own with the files of examples/."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
#: The command, to compare with.
COMMAND = os.environ.get("WAYPOST_COMMAND", str(ROOT / "target/debug/waypost"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for file in EXAMPLES.iterdir():
        if file.is_file() and file.suffix != ".md":
            shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command():
    """Runs the command and returns what it prints."""

    def run(*words):
        ran = subprocess.run([COMMAND, *map(str, words)], capture_output=True)
        assert ran.returncode in (0, 1), ran.stderr
        return ran.stdout

    return run


def contents(path):
    """The bytes of a file, or of all files in a folder by name."""
    path = pathlib.Path(path)
    if path.is_file():
        return path.read_bytes()
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
