"""Every kind of summary, however it was made, answers as in the command: the pairs of docs/pairs.md."""

import itertools
import pathlib

import pytest

import waypost

KEY = ["--key-file", "secret"]
MAP = ["map", "build"]
FILTER = ["filter", "build"]
CLASSIC = ["filter", "export"]

#: How each kind is built and merged, and the end of its name.
KINDS = {
    "map": (MAP, ["map", "merge"], "ukvs"),
    "filter": (FILTER, ["filter", "merge"], "filter"),
    "keyed": ([*FILTER, *KEY], ["filter", "merge"], "filter"),
    "csv": (CLASSIC, None, "csv"),
    "orestes": ([*CLASSIC, "--form", "binary"], None, "orestes"),
}

WAYS = {
    "whole": [],
    "pages": ["--preset", "pages"],
    "period": ["--from", "2015", "--to", "2020"],
    "takedown": ["--exclude-list", "takedown.txt"],
    "merged": None,
}


def uris(name, end=""):
    return [f"http://a{n % 7}.example.org/{name}/{n}{end}" for n in range(30)]


PAGES, IMAGES, OLD, OTHERS = uris("page"), uris("image", ".png"), uris("old"), uris("none")
TAKEN = [f"http://gone.example.net/{n}" for n in range(30)]


@pytest.fixture
def indexes(command):
    def index(name, captures):
        text = "".join(
            f'x)/ {time} {{"url": "{uri}", "mime": "{mime}", "status": "200"}}\n' for uri, time, mime in captures
        )
        pathlib.Path("unkeyed.cdxj").write_text(text)
        command("index", "rekey", "--dialect", "ia", "unkeyed.cdxj", "-o", name)
        return name

    pathlib.Path("secret").write_text("00112233445566778899aabbccddeeff\n")
    pathlib.Path("takedown.txt").write_text("host http://gone.example.net/\n")
    html = [(uri, "20180301000000", "text/html") for uri in PAGES + TAKEN]
    images = [(uri, "20180301000000", "image/png") for uri in IMAGES]
    old = [(uri, "20110301000000", "text/html") for uri in OLD]
    return [index("new.cdxj", html + images), index("old.cdxj", old)]


def make(command, indexes, kind, way):
    build, merge, end = KINDS[kind]
    path = f"{kind}.{way}.{end}"
    if way != "merged":
        command(*build, *indexes, *WAYS[way], "-o", path)
        return path
    mergeable = ["--kind", "hashes"] if build[:2] == FILTER else []
    parts = [f"{kind}.{index}.part" for index in indexes]
    for index, part in zip(indexes, parts):
        command(*build, index, *mergeable, "-o", part)
    command(*merge, *(["--kind", "ribbon"] if mergeable else []), *parts, "-o", path)
    return path


@pytest.mark.parametrize("kind, way", list(itertools.product(KINDS, WAYS)))
def test_answers_are_those_of_the_command_and_never_call_a_held_uri_absent(indexes, command, kind, way):
    if way == "merged" and KINDS[kind][1] is None:
        pytest.skip("classic filters can't be merged")
    path = make(command, indexes, kind, way)
    key = KEY if kind == "keyed" else []
    lookups = PAGES + IMAGES + OLD + TAKEN + OTHERS
    pathlib.Path("lookups").write_text("\n".join(lookups))
    printed = command("lookup", path, *key, "--batch", "lookups", "--format", "tsv").decode().splitlines()
    with waypost.open(path, *key[1:]) as summary:
        answers = dict(zip(lookups, summary.lookup_many(lookups)))
    assert list(answers.values()) == [row.split("\t")[1] for row in printed]
    assert all(answers[uri] != "absent" for uri in PAGES + IMAGES + OLD)
    if way == "takedown" and kind != "map":
        assert [answers[uri] for uri in TAKEN].count("absent") >= 27
    if way in ("whole", "merged", "takedown"):
        assert [answers[uri] for uri in OTHERS].count("absent") >= 27
