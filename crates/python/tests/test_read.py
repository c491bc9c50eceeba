"""Captures as Arrow: equal to the lines of the index, in every library."""

import datetime
import gzip
import json
import pathlib
import shutil

import duckdb
import polars
import pyarrow
import pytest

import waypost


def rows(path="small.cdxj"):
    """The captures of an index, parsed by Python."""
    for line in pathlib.Path(path).read_text().splitlines():
        key, timestamp, fields = line.split(" ", 2)
        yield {"urlkey": key, "timestamp": timestamp, **json.loads(fields)}


def test_captures_equal_the_lines_of_the_index():
    table = waypost.read("small.cdxj", ["urlkey", "timestamp", "url", "status", "mime", "length", "offset"]).to_pyarrow()
    expected = list(rows())
    assert table.num_rows == len(expected)
    for ours, theirs in zip(table.to_pylist(), expected):
        assert ours["urlkey"] == theirs["urlkey"] and ours["url"] == theirs["url"]
        assert ours["timestamp"] == datetime.datetime.strptime(theirs["timestamp"] + "+0000", "%Y%m%d%H%M%S%z")
        number = lambda name: int(theirs[name]) if theirs.get(name, "-").isdigit() else None
        assert (ours["status"], ours["length"], ours["offset"]) == (number("status"), number("length"), number("offset"))
    assert table.schema.field("status").type == pyarrow.int16()
    assert table.schema.field("timestamp").type == pyarrow.timestamp("s", "UTC")
    table.validate(full=True)


def test_many_batches_keep_the_order_and_any_input_gives_the_same():
    text = pathlib.Path("small.cdxj").read_bytes()
    pathlib.Path("big.cdxj").write_bytes(text * 200)
    pathlib.Path("big.cdxj.gz").write_bytes(b"".join(gzip.compress(text * 20) for _ in range(10)))
    waypost.sort_index("big.cdxj", "zipnum", zipnum=True, lines=500)
    plain = waypost.read("big.cdxj", ["urlkey", "url"])
    sizes = [batch.num_rows for batch in plain]
    assert len(sizes) > 2 and min(sizes[:-1]) >= 65536
    expected = [row["url"] for row in rows()] * 200
    assert plain.to_pyarrow()["url"].to_pylist() == expected
    assert waypost.read("big.cdxj.gz", ["url"]).to_pyarrow()["url"].to_pylist() == expected
    keys = waypost.read("zipnum/cluster.idx", ["urlkey"]).to_pyarrow()["urlkey"].to_pylist()
    assert keys == sorted(plain.to_pyarrow()["urlkey"].to_pylist())


def test_pandas_polars_and_duckdb_read_the_same_stream():
    captures = waypost.read("small.cdxj", where={"status": "200"})
    expected = sum(row.get("status") == "200" for row in rows())
    assert len(captures.to_pandas()) == expected
    assert polars.DataFrame(captures).height == expected
    assert duckdb.sql("select count(*) from captures").fetchall() == [(expected,)]
    reader = captures.reader()
    assert duckdb.sql("select count(*) from reader").fetchall() == [(expected,)]
    assert captures.report["selected"] == expected


def test_filters_are_those_of_the_command(command):
    for where, words in [
        ({"mime": "image/*"}, ["--mime", "image/*"]),
        ({"from_": "2020", "to": "2020"}, ["--from", "2020", "--to", "2020"]),
        ({"include": ["org,", "com,"]}, ["--include", "org,", "--include", "com,"]),
        ({"exclude": "~robots"}, ["--exclude", "~robots"]),
        ({"revisits": "drop", "status": [200, 301]}, ["--revisits", "drop", "--status", "200,301"]),
    ]:
        expected = json.loads(command("index", "check", "small.cdxj", "--format", "json", *words))["selected"]
        assert waypost.read("small.cdxj", ["urlkey"], where).to_pyarrow().num_rows == expected, where


def test_warc_and_wacz_files_are_indexes_too(command):
    for path in ["crawl.warc.gz", "crawl.wacz"]:
        table = waypost.read(path).to_pyarrow()
        assert table.num_rows > 0 and table["url"].null_count == 0
    command("index", "warc", "crawl.warc.gz", "-o", "crawl.cdxj")
    expected = waypost.read("crawl.cdxj").to_pyarrow()
    assert waypost.read("crawl.warc.gz").to_pyarrow() == expected
    folder = pathlib.Path("warcs")
    folder.mkdir()
    shutil.copy("crawl.warc.gz", folder)
    assert waypost.read(folder).to_pyarrow() == expected
    where = {"status": 200}
    assert waypost.read("crawl.warc.gz", ["url"], where).to_pyarrow() == waypost.read("crawl.cdxj", ["url"], where).to_pyarrow()


def test_bad_lines_are_counted_or_an_error_and_a_reader_may_stop():
    text = pathlib.Path("small.cdxj").read_bytes()
    pathlib.Path("bad.cdxj").write_bytes(text * 300 + b"not a capture\n")
    captures = waypost.read("bad.cdxj", ["url"])
    assert captures.report is None
    captures.to_pyarrow()
    assert captures.report["bad_lines"] == 1 and "bad.cdxj: line" in captures.report["examples"][0]
    strict = waypost.read("bad.cdxj", ["url"], strict=True)
    line = 300 * text.count(b"\n") + 1
    for use in [strict.to_pyarrow, strict.to_pandas, strict.to_polars, lambda: list(strict)]:
        with pytest.raises(waypost.WaypostError) as raised:
            use()
        assert (raised.value.file, raised.value.line) == ("bad.cdxj", line)
    with pytest.raises(Exception, match="bad.cdxj"):
        strict.reader().read_all()
    next(iter(waypost.read("bad.cdxj", ["url"])))
    with pytest.raises(waypost.WaypostError, match="missing"):
        waypost.read("missing.cdx")
    with pytest.raises(ValueError, match="urlkey, timestamp, url"):
        waypost.read("small.cdxj", ["uri"])
    with pytest.raises(ValueError, match="status"):
        waypost.read("small.cdxj", where={"statu": 200})
