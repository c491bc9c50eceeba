"""SURTs equal those of Python's `surt`, one by one and in columns of every library."""

import random
import sys
import threading
import time

import pandas
import polars
import pyarrow
import pytest
import surt as reference

import waypost
from waypost import _waypost

HOSTS = ["example.com", "WWW.Example.ORG", "www2.a.co.uk", "b\u00fccher.example", "1.2.3.4", "x.y:8080", "a.b:443"]
PATHS = ["", "/", "/A/../b/./c", "//x//", "/%41%2f%zz", "/a b", "/index.html;jsessionid=0123456789abcdef0123456789abcdef"]
QUERIES = ["", "?", "?b=2&a=1", "?PHPSESSID=0123456789abcdef0123456789abcdef", "?a&A=%C3%BC", "?x=1&utm_source=y#top"]


def uris(count=3000, seed=7):
    draw = random.Random(seed)
    pick = lambda options: draw.choice(options)
    return [
        f"{pick(['http', 'https', 'HTTP', 'ftp'])}://{pick(HOSTS)}{pick(PATHS)}{pick(QUERIES)}" for _ in range(count)
    ]


def test_surts_equal_those_of_the_surt_package():
    given = uris()
    assert waypost.surt(given) == [reference.surt(uri) for uri in given]


def test_a_column_of_any_library_gives_the_same_as_one_by_one():
    given = uris(10_000) + [None, "http://example.com:99999/", "\u00fc" * 50]
    one_by_one = []
    for uri in given:
        try:
            one_by_one.append(None if uri is None else waypost.surt(uri))
        except ValueError:
            one_by_one.append(None)
    assert waypost.surt(given) == one_by_one
    assert waypost.surt(tuple(given)) == one_by_one
    assert waypost.surt(iter(given)) == one_by_one
    for kind in [pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()]:
        array = pyarrow.array(given, type=kind)
        assert waypost.surt(array).to_pylist() == one_by_one, kind
        assert waypost.surt(array.slice(17, 200)).to_pylist() == one_by_one[17:217], kind
    chunked = pyarrow.chunked_array([given[:5], given[5:100], given[100:]])
    assert waypost.surt(chunked).to_pylist() == one_by_one
    assert waypost.surt(polars.Series("uri", given)).to_list() == one_by_one
    series = waypost.surt(pandas.Series(given, index=range(5, len(given) + 5)))
    assert [None if pandas.isna(value) else value for value in series] == one_by_one
    assert list(series.index[:2]) == [5, 6]
    assert waypost.surt(pyarrow.nulls(3)).to_pylist() == [None] * 3
    assert waypost.surt([]) == [] and len(waypost.surt(pyarrow.array([], pyarrow.string()))) == 0


def test_bytes_that_are_not_utf8_are_canonicalised():
    assert waypost.surt(b"http://example.com/\xff") == "com,example)/%ff"


def test_wrong_types_and_names_are_errors():
    with pytest.raises(TypeError, match="int"):
        waypost.surt([1])
    with pytest.raises(TypeError, match="instead of strings"):
        waypost.surt(pyarrow.array([1, 2]))
    with pytest.raises(TypeError, match="dictionary"):
        waypost.surt(pyarrow.array(["a"]).dictionary_encode())
    with pytest.raises(ValueError, match="dialekt"):
        waypost.surt("http://a.com/", "dialekt")
    with pytest.raises(ValueError, match="H9"):
        waypost.keys("http://a.com/", ["H9"])


def test_keys_equal_those_of_the_command(command):
    for uri in uris(20) + ["com,example)/a/b?c=d"]:
        printed = command("keys", "--format", "tsv", uri).decode().splitlines()
        expected = {row.split("\t")[-2]: row.split("\t")[-1] for row in printed if "\tSURT\t" not in row}
        assert waypost.keys(uri) == expected, uri


def test_keys_of_a_column_are_those_of_each_uri():
    given = uris(5000) + [None, "http://example.com:99999/", "com,example)/a/b?c=d"]
    names = ["H3P0", "DDom", "HxPx"]
    one_by_one = []
    for uri in given:
        try:
            one_by_one.append(None if uri is None else waypost.keys(uri, names))
        except ValueError:
            one_by_one.append(None)
    assert one_by_one.count(None) == 2
    assert waypost.keys(given, names) == one_by_one
    assert waypost.keys(pyarrow.array(given), names).to_pylist() == one_by_one
    assert waypost.keys(pyarrow.chunked_array([given[:7], given[7:]]), names).to_pylist() == one_by_one
    assert waypost.keys(polars.Series("uri", given), names).to_list() == one_by_one
    frame = waypost.keys(pandas.Series(given, index=range(5, len(given) + 5)), names)
    assert list(frame.columns) == names and frame.index[0] == 5
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    assert rows == [row or dict.fromkeys(names) for row in one_by_one]
    assert waypost.keys(given[:3]) == [waypost.keys(uri) for uri in given[:3]]


def test_other_threads_run_meanwhile():
    array = pyarrow.array(uris(200_000))
    listed = array.to_pylist()
    calls = [
        lambda: _waypost.surts_of_arrow(array, "ia"),
        lambda: _waypost.surts(listed, "ia"),
        lambda: _waypost.keys_of_arrow(array, ["H3P0"], "ia"),
        lambda: _waypost.keys_of_list(listed, ["H3P0"], "ia"),
    ]
    interval = sys.getswitchinterval()
    # A thread that holds the interpreter's lock keeps it until it releases it.
    sys.setswitchinterval(1000)
    try:
        for call in calls:
            for _ in range(5):
                lock, ran = threading.Lock(), []
                lock.acquire()
                thread = threading.Thread(target=lambda: (lock.acquire(), ran.append(True)))
                thread.start()
                # Now it waits.
                time.sleep(0.05)
                lock.release()
                call()
                if ran:
                    break
                thread.join()
            assert ran
    finally:
        sys.setswitchinterval(interval)
