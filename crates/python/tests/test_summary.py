"""Lookups in summaries: the answers of the command, in every kind of column."""

import pathlib
import pickle

import polars
import pyarrow
import pytest

import waypost


@pytest.fixture
def summaries():
    waypost.build_map("small.cdxj", "full.ukvs")
    waypost.compact("full.ukvs", "small.ukvs", keys="10%")
    waypost.profile("small.cdxj", "profiles", policy="HxP1", id="x")
    waypost.build_filter("small.cdxj", "small.filter")
    return ["full.ukvs", "small.ukvs", "profiles/x.HxP1.cdxj", "small.filter"]


def test_answers_equal_those_of_the_command(summaries, command):
    lookups = pathlib.Path("lookups.txt").read_text().splitlines()
    for path in summaries:
        printed = command("lookup", path, "--batch", "lookups.txt", "--format", "tsv").decode().splitlines()
        expected = [row.split("\t")[1] for row in printed]
        expected = [None if presence == "rejected" else presence for presence in expected]
        with waypost.open(path) as summary:
            assert summary.lookup_many(lookups) == expected, path
            assert summary.lookup_many(pyarrow.array(lookups)).to_pylist() == expected, path
            assert summary.lookup_many(polars.Series(lookups)).to_list() == expected, path
            for uri, row in list(zip(lookups, printed))[:50]:
                answer = summary.lookup(uri)
                assert (uri, answer.presence, answer.key or "-") == tuple(row.split("\t")[:3]), path
                assert bool(answer) == (answer.presence != "absent")


def test_every_held_uri_is_present(summaries):
    held = waypost.read("small.cdxj", ["url"]).to_pyarrow()["url"]
    for path in summaries:
        assert set(waypost.open(path).lookup_many(held).to_pylist()) == {"present"}, path


def test_a_summary_is_pickled_by_its_path_and_closed(summaries):
    for path in summaries:
        summary = waypost.open(path)
        copy = pickle.loads(pickle.dumps(summary))
        assert copy.about == summary.about and copy.kind in path + "map profiles"
        assert "<table" in summary._repr_html_() and path in repr(summary)
        summary.close()
        with pytest.raises(ValueError, match="closed"):
            summary.lookup("http://example.com/")
        assert copy.lookup("http://nothing.example.net/").presence == "absent"


def test_a_keyed_filter_needs_its_key():
    pathlib.Path("secret").write_text("00112233445566778899aabbccddeeff\n")
    waypost.build_filter("small.cdxj", "keyed.filter", key_file="secret")
    assert waypost.open("keyed.filter", "secret").lookup("http://library.example.org/")
    with pytest.raises(waypost.WaypostError, match="needs a secret"):
        waypost.open("keyed.filter")


def test_classic_filters_are_summaries():
    for bits, presence in ("//8=", "present"), ("AAA=", "absent"):
        text = f"name,hash,m,k,n,bits\nall,Murmur3,16,1,1,{bits}\n"
        pathlib.Path("classic").write_text(text)
        filter = waypost.open("classic")
        assert filter.lookup("http://library.example.org/").presence == presence


def test_what_is_not_a_summary_is_an_error():
    with pytest.raises(waypost.WaypostError) as raised:
        waypost.open("small.cdxj")
    assert raised.value.file == "small.cdxj"
    with pytest.raises(ValueError, match="port"):
        waypost.build_filter("small.cdxj", "f")
        waypost.open("f").lookup("http://a.com:99999/")
