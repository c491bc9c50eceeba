"""Every function gives what the command gives; errors have a place."""

import json
import pathlib
import pickle
import sys

import pytest

import waypost
from conftest import contents

INPUT = "small.cdxj"


def test_profiles_maps_and_filters_have_the_bytes_of_the_command(command):
    waypost.profile(INPUT, "ours", by="month", id="x", policy=["H3P0", "DDom"], status=[200, "3xx"])
    command("profile", INPUT, "-o", "theirs", "--by", "month", "--id", "x", "--policy", "H3P0,DDom", "--status", "200,3xx")
    assert contents("ours") == contents("theirs")
    waypost.build_map([INPUT, "lookups.txt"], "ours.ukvs", table=True)
    command("map", "build", INPUT, "lookups.txt", "-o", "theirs.ukvs", "--table")
    assert contents("ours.ukvs") == contents("theirs.ukvs")
    waypost.compact("ours.ukvs", "ours.small", keys="10%", lookups="lookups.txt")
    command("map", "compact", "theirs.ukvs", "-o", "theirs.small", "--keys", "10%", "--lookups", "lookups.txt")
    assert contents("ours.small") == contents("theirs.small")
    waypost.build_filter(pathlib.Path(INPUT), pathlib.Path("ours.filter"), fpr="1%", dc=["rights=CC0"])
    command("filter", "build", INPUT, "-o", "theirs.filter", "--fpr", "1%", "--dc", "rights=CC0")
    assert contents("ours.filter") == contents("theirs.filter")
    waypost.sort_index(INPUT, "ours.zipnum", zipnum=True, lines=100, shards=3)
    command("index", "sort", INPUT, "--zipnum", "theirs.zipnum", "--lines", 100, "--shards", 3)
    assert contents("ours.zipnum") == contents("theirs.zipnum")


def test_results_are_what_the_command_prints(command):
    assert waypost.check(INPUT, keys=True) == json.loads(command("index", "check", INPUT, "--keys", "--format", "json"))
    waypost.build_map(INPUT, "full.ukvs")
    ours = waypost.evaluate("full.ukvs", INPUT, "lookups.txt")["summaries"]
    theirs = command("evaluate", "full.ukvs", "--holdings", INPUT, "--lookups", "lookups.txt", "--format", "json")
    assert ours == json.loads(theirs)


def test_errors_have_a_file_a_line_and_a_hint():
    with pytest.raises(waypost.WaypostError, match="missing.cdx") as raised:
        waypost.build_map("missing.cdx", "x.ukvs")
    assert (raised.value.file, raised.value.hint) == ("missing.cdx", "check the path")
    text = pathlib.Path(INPUT).read_text().splitlines()
    text[7] = "this is not a capture"
    pathlib.Path("bad.cdxj").write_text("\n".join(text))
    with pytest.raises(waypost.WaypostError) as raised:
        waypost.check("bad.cdxj", strict=True)
    assert (raised.value.file, raised.value.line) == ("bad.cdxj", 8)
    counted = waypost.check("bad.cdxj")
    assert not counted.ok and sum(counted["bad"].values()) == 1
    with pytest.raises(waypost.WaypostError, match="--polizy"):
        waypost.profile(INPUT, "out", polizy="H3P0")
    assert not pathlib.Path("out").exists() and not pathlib.Path("x.ukvs").exists()


def test_a_result_is_shown_as_a_table_with_escapes():
    result = waypost.Result({"name": "<b>", "rows": [{"a": 1, "b": None}], "done": True}, ok=False, messages=["a < b"])
    html = result._repr_html_()
    assert "&lt;b&gt;" in html and "<b>" not in html and "a &lt; b" in html and "yes" in html
    copy = pickle.loads(pickle.dumps(result))
    assert (copy, copy.ok, copy.messages) == (result, False, ["a < b"])


def test_progress_is_reported():
    big = pathlib.Path("big.cdxj")
    big.write_bytes(pathlib.Path(INPUT).read_bytes() * 400)
    seen = []
    waypost.check(big, progress=lambda phase, done, total: seen.append((phase, done, total)))
    assert seen and seen[0][0] in ("reading", "sorting")


def test_a_bar_shows_each_phase(capsys, monkeypatch):
    def tell():
        bar = waypost._commands.Bar()
        for phase, done, total in [("reading", 0, 10), ("reading", 5, 10), ("writing", 3, None)]:
            bar(phase, done, total)
        bar.close()
        return capsys.readouterr().err

    assert "reading" in tell() and "writing" in tell()
    # Without tqdm.
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert "reading 50%" in tell()


def test_segments_are_those_of_the_command(command):
    index = "segments.cdxj"
    waypost.segments.tabulate(index, "ours.segments", by=["mime", "tld"])
    command("segments", "tabulate", index, "-o", "theirs.segments", "--by", "mime,tld")
    assert contents("ours.segments") == contents("theirs.segments")
    for name in ["rank", "predict"]:
        ours = getattr(waypost.segments, name)("ours.segments", top=50)
        assert ours == json.loads(command("segments", name, "ours.segments", "--top", 50, "--format", "json"))
    ours = waypost.segments.overlap(index, "small.cdxj", subset="all")
    assert ours == json.loads(command("segments", "overlap", index, "small.cdxj", "--subset", "all", "--format", "json"))
    waypost.segments.merge(["ours.segments", "theirs.segments"], "ours.merged")
    command("segments", "merge", "ours.segments", "theirs.segments", "-o", "theirs.merged")
    assert contents("ours.merged") == contents("theirs.merged")
