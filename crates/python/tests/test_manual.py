"""The examples in docstrings, and the notebook, run."""

import doctest
import importlib
import pathlib
import shutil

import pytest

MODULES = ["__init__", "_arrays", "_captures", "_commands", "_result", "_summary", "spark"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module("waypost" if name == "__init__" else f"waypost.{name}")
    result = doctest.testmod(module)
    assert result.failed == 0
    assert result.attempted > 0


def test_stubs_name_everything():
    import waypost

    stubs = pathlib.Path(waypost.__file__).with_name("__init__.pyi").read_text()
    for name in waypost.__all__:
        assert any(f"{word} {name}" in stubs for word in ("def", "class")) or f"{name}:" in stubs, name


def test_the_notebook_runs():
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    path = pathlib.Path(__file__).parents[1] / "notebooks" / "tour.ipynb"
    shutil.copy(path, "tour.ipynb")
    notebook = nbformat.read("tour.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("text/html" in output.get("data", {}) for output in outputs)
