"""Inputs on the Web, in S3 and in HDFS: the same results as from files, and no more is read than needed."""

import gzip
import json
import pathlib
import shutil

import pytest

import waypost
from conftest import EXAMPLES, contents
from stores import Web, hdfs, s3, serving
from waypost import _commands, _waypost


@pytest.fixture
def files(folder):
    """A plain file, a gzip file of many members, and a ZipNum index."""
    lines = (EXAMPLES / "small.cdxj").read_bytes().splitlines(keepends=True)
    place = folder / "cdx files"
    place.mkdir()
    (place / "a.cdxj").write_bytes(b"".join(reversed(lines)))
    members = [gzip.compress(b"".join(lines[at : at + 100])) for at in range(0, len(lines), 100)]
    (place / "b.cdxj.gz").write_bytes(b"".join(members))
    waypost.sort_index("small.cdxj", place / "zipnum", zipnum=True, lines=50, shards=3)
    return place


def in_ranges(names, size, output):
    """Builds a map as a cluster does: every range is read by itself."""
    words = ["worker", "plan", "--size", size, *names, "--", "map", "build", "-o", output]
    plan = _commands.call(words, False)[1].decode().splitlines()
    pathlib.Path("partials").write_text("".join(_waypost.work(line) + "\n" for line in plan))
    _commands.call(["worker", "merge", "partials"], False)
    return [json.loads(line) for line in plan]


def check_everything(base, files):
    """Whole files, ranges of them, and a ZipNum index give the same as the files."""
    local = [files / "a.cdxj", files / "b.cdxj.gz"]
    remote = [f"{base}/{path.name}" for path in local]
    waypost.build_map(local, "local.ukvs")
    waypost.build_map(remote, "remote.ukvs")
    assert contents("remote.ukvs") == contents("local.ukvs")
    plan = in_ranges(remote, "16K", "ranges.ukvs")
    assert len(plan) > 10 and contents("ranges.ukvs") == contents("local.ukvs")
    waypost.sort_index(remote, "remote.cdxj")
    waypost.sort_index(local, "local.cdxj")
    assert contents("remote.cdxj") == contents("local.cdxj")
    # read() gives the same captures, in the same order.
    ours = waypost.read(remote[1], ["urlkey", "status"]).to_pyarrow()
    assert ours.equals(waypost.read(local[1], ["urlkey", "status"]).to_pyarrow())


def test_a_web_server(files, folder):
    with serving(folder, Web) as server:
        base = f"http://127.0.0.1:{server.server_address[1]}/cdx%20files"
        check_everything(base, files)
        waypost.build_map(f"{base}/zipnum/cluster.idx", "remote.ukvs")
        waypost.build_map(files / "zipnum/cluster.idx", "local.ukvs")
        assert contents("remote.ukvs") == contents("local.ukvs")
        shutil.copy(EXAMPLES / "crawl.warc.gz", files)
        ours = waypost.read(f"{base}/crawl.warc.gz", ["url", "offset"]).to_pyarrow()
        assert ours.num_rows > 0 and ours == waypost.read("crawl.warc.gz", ["url", "offset"]).to_pyarrow()
        # A range is read by itself: its bytes and the start of the file, which tells the layout.
        (files / "large.cdxj").write_bytes(20 * (files / "a.cdxj").read_bytes())
        words = ["worker", "plan", "--size", "1M", f"{base}/large.cdxj", "--", "index", "check"]
        last = _commands.call(words, False)[1].decode().splitlines()[-1]
        start = json.loads(last)["start"]
        server.asked.clear()
        _waypost.work(last)
        asked = [tuple(map(int, asked.removeprefix("bytes=").split("-"))) for asked in server.asked]
        assert start >= 3 << 20 and all(first >= start or end < 256 * 1024 for first, end in asked), (start, asked)
        with pytest.raises(waypost.WaypostError, match="no such file") as raised:
            waypost.check(f"{base}/missing.cdxj")
        assert raised.value.file.endswith("missing.cdxj")


def test_hdfs(files, folder, monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "crawler")
    with hdfs(folder) as name_node:
        base = f"webhdfs://127.0.0.1:{name_node.server_address[1]}/cdx files"
        check_everything(base, files)
        assert {query["user.name"] for query in name_node.asked} == {"crawler"}
        opened = [query for query in name_node.data_node.asked if query["op"] == "OPEN"]
        assert len(opened) > 10
        with pytest.raises(waypost.WaypostError, match="no such file"):
            waypost.check(f"{base}/missing.cdxj")


def test_s3(files):
    with s3([files / "a.cdxj", files / "b.cdxj.gz"]):
        check_everything("s3://crawl/cdx files", files)
        with pytest.raises(waypost.WaypostError, match="no such file"):
            waypost.check("s3://crawl/missing.cdxj")
        with pytest.raises(waypost.WaypostError, match="s3://BUCKET/KEY"):
            waypost.check("s3://crawl")
