"""The examples in docstrings, and the notebook, run."""

import ast
import doctest
import importlib
import inspect
import pathlib
import shutil
import subprocess
import sys

import pytest

MODULES = ["__init__", "_arrays", "_captures", "_commands", "_result", "_sort", "_summary", "segments", "spark"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module("waypost" if name == "__init__" else f"waypost.{name}")
    result = doctest.testmod(module)
    assert result.failed == 0
    assert result.attempted > 0


@pytest.mark.parametrize("name", ["waypost", "waypost.segments", "waypost.spark"])
def test_stubs_have_the_signatures_of_the_functions(name):
    module = importlib.import_module(name)
    stubs = ast.parse(pathlib.Path(module.__file__).with_suffix(".pyi").read_text())
    named = set()
    for item in stubs.body:
        if isinstance(item, ast.FunctionDef):
            parameters = inspect.signature(getattr(module, item.name)).parameters.values()
            given = item.args
            assert [one.arg for one in given.args] == [one.name for one in parameters if one.kind == one.POSITIONAL_OR_KEYWORD]
            assert [one.arg for one in given.kwonlyargs] == [one.name for one in parameters if one.kind == one.KEYWORD_ONLY]
            assert bool(given.kwarg) == any(one.kind == one.VAR_KEYWORD for one in parameters)
            named.add(item.name)
        elif isinstance(item, ast.ClassDef):
            for member in item.body:
                if isinstance(member, ast.FunctionDef):
                    assert hasattr(getattr(module, item.name), member.name), member.name
            named.add(item.name)
        elif isinstance(item, ast.AnnAssign):
            named.add(item.target.id)
        elif isinstance(item, ast.ImportFrom):
            named.update(one.name for one in item.names)
    assert set(module.__all__) <= named


def test_type_checkers_find_the_types():
    pathlib.Path("user.py").write_text(
        "import waypost\n"
        "key: str = waypost.surt('http://example.com/')\n"
        "column: list[str] = waypost.surt(['http://example.com/'])\n"
        "row: dict[str, str] = waypost.keys('http://example.com/', 'H1P0')\n"
        "answer: waypost.Answer = waypost.open('map.ukvs').lookup('http://example.com/')\n"
        "made: waypost.Result = waypost.spark.sort_index(None, ['a.cdxj'], 'out', shards=3)\n"
        "rank: waypost.Result = waypost.segments.rank('crawl.segments', top=3)\n"
        "number: int = waypost.surt('http://example.com/')\n"
        "waypost.build_map('small.cdxj')\n"
    )
    ran = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", ".", "user.py"], capture_output=True, text=True)
    errors = [line.partition(": error")[0] for line in ran.stdout.splitlines() if ": error" in line]
    assert errors == ["user.py:8", "user.py:9"], ran.stdout


def test_the_notebook_runs():
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    path = pathlib.Path(__file__).parents[1] / "notebooks" / "tour.ipynb"
    shutil.copy(path, "tour.ipynb")
    notebook = nbformat.read("tour.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("text/html" in output.get("data", {}) for output in outputs)
