"""Parquet: DuckDB, Polars and pyarrow read it, and read no more of it than they need."""

import datetime
import json
import pathlib

import duckdb
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest

import waypost
from stores import Web, serving

FILES = "table/crawl=small/subset=warc/"
COLUMNS = """url_surtkey url url_host_name url_host_tld url_host_2nd_last_part url_host_3rd_last_part
url_host_4th_last_part url_host_5th_last_part url_host_registry_suffix url_host_registered_domain
url_host_private_suffix url_host_private_domain url_host_name_reversed url_protocol url_port url_path url_query
fetch_time fetch_status fetch_redirect content_digest content_mime_type content_mime_detected content_charset
content_languages content_truncated warc_filename warc_record_offset warc_record_length warc_segment""".split()


def rows():
    """The captures of the index, parsed by Python."""
    for line in pathlib.Path("small.cdxj").read_text().splitlines():
        key, timestamp, fields = line.split(" ", 2)
        yield {"urlkey": key, "timestamp": timestamp, **json.loads(fields)}


def test_every_row_and_type_is_right():
    expected = list(rows())
    assert waypost.to_parquet("small.cdxj", "table", rows=100)["rows"] == len(expected)
    table = pyarrow.parquet.read_table(FILES + "part-00000.zstd.parquet", partitioning=None)
    assert table.column_names == COLUMNS
    types = {field.name: field.type for field in table.schema}
    assert types["url"] == pyarrow.string() and types["fetch_status"] == pyarrow.int16()
    assert types["fetch_time"] == pyarrow.timestamp("ms", "UTC") and types["warc_record_offset"] == pyarrow.int32()
    for ours, theirs in zip(table.to_pylist(), expected):
        assert (ours["url_surtkey"], ours["url"]) == (theirs["urlkey"], theirs["url"])
        time = datetime.datetime.strptime(theirs["timestamp"] + "+0000", "%Y%m%d%H%M%S%z")
        assert ours["fetch_time"] == time
        status = theirs.get("status", "-")
        assert ours["fetch_status"] == (int(status) if status.isdigit() else -1)
        assert str(ours["warc_record_offset"]) == theirs["offset"]
        assert ours["content_digest"] == theirs.get("digest")
        host = theirs["url"].split("/")[2].lower()
        assert ours["url_host_name"] == host.partition(":")[0]
        assert ours["url_host_tld"] == host.partition(":")[0].rpartition(".")[2]
    table.validate(full=True)


def test_duckdb_and_polars_find_the_same():
    waypost.to_parquet("small.cdxj", "table", rows=100)
    expected = list(rows())
    ok = sum(row.get("status") == "200" for row in expected)
    query = "select count(*), min(url_surtkey), max(url_surtkey) from 'table/**/*.parquet' where fetch_status = 200 and crawl = 'small'"
    count, least, most = duckdb.sql(query).fetchall()[0]
    keys = [row["urlkey"] for row in expected if row.get("status") == "200"]
    assert (count, least, most) == (ok, min(keys), max(keys))
    frame = polars.scan_parquet("table/**/*.parquet", hive_partitioning=True)
    assert frame.filter(polars.col("fetch_status") == 200).collect().height == ok


def test_a_range_of_surts_touches_only_its_row_groups():
    waypost.to_parquet("small.cdxj", "table", rows=100)
    path = FILES + "part-00000.zstd.parquet"
    keys = [row["urlkey"] for row in rows()]
    metadata = pyarrow.parquet.ParquetFile(path).metadata
    assert metadata.num_row_groups == -(-len(keys) // 100)
    for number in range(metadata.num_row_groups):
        column = metadata.row_group(number).column(0)
        group = keys[100 * number : 100 * number + 100]
        assert (column.statistics.min, column.statistics.max) == (group[0], group[-1])
        assert column.has_column_index and column.has_offset_index and column.compression == "ZSTD"
        assert metadata.row_group(number).column(0).is_stats_set
    low, high = keys[250], keys[260]
    field = pyarrow.dataset.field("url_surtkey")
    fragment = next(pyarrow.dataset.dataset(path).get_fragments())
    touched = fragment.subset((field >= low) & (field <= high)).row_groups
    wanted = {at // 100 for at, key in enumerate(keys) if low <= key <= high}
    assert {group.id for group in touched} == wanted and len(wanted) < metadata.num_row_groups
    # The Bloom filter excludes keys between those that are there.
    missing = [low + "zzz-not-there", "com,example,nowhere)/x", "org,zzz)/"]
    for key in missing + [low]:
        probe = f"select bloom_filter_excludes from parquet_bloom_probe('{path}', 'url_surtkey', '{key}')"
        excluded = [row[0] for row in duckdb.sql(probe).fetchall()]
        if key == low:
            assert not all(excluded)
        else:
            # One in a hundred is a false positive.
            assert sum(excluded) >= len(excluded) - 1


def test_a_query_for_a_range_does_not_read_the_other_row_groups():
    waypost.to_parquet("small.cdxj", "table", rows=100)
    path = pathlib.Path(FILES + "part-00000.zstd.parquet")
    keys = [row["urlkey"] for row in rows()]
    low, high = keys[250], keys[260]
    expected = sorted(key for key in keys if low <= key <= high)
    metadata = pyarrow.parquet.ParquetFile(path).metadata
    data = bytearray(path.read_bytes())
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.column(0).statistics.max < low or group.column(0).statistics.min > high:
            # The pages of this row group cannot be read any more.
            for column in map(group.column, range(group.num_columns)):
                pages = [at for at in (column.dictionary_page_offset, column.data_page_offset) if at]
                data[min(pages) : min(pages) + column.total_compressed_size] = b"\xee" * column.total_compressed_size
    path.write_bytes(data)
    with pytest.raises(Exception):
        pyarrow.parquet.read_table(path, partitioning=None)
    query = f"select url_surtkey, url, warc_filename from '{path}' where url_surtkey between '{low}' and '{high}'"
    assert sorted(row[0] for row in duckdb.sql(query).fetchall()) == expected
    wanted = [("url_surtkey", ">=", low), ("url_surtkey", "<=", high)]
    table = pyarrow.parquet.read_table(path, partitioning=None, filters=wanted)
    assert sorted(table["url_surtkey"].to_pylist()) == expected
    between = polars.col("url_surtkey").is_between(polars.lit(low), polars.lit(high))
    frame = polars.scan_parquet(path).filter(between).select("url_surtkey", "url").collect()
    assert sorted(frame["url_surtkey"]) == expected


def test_crawls_and_subsets_are_folders_and_large_offsets_need_wide_columns():
    lines = []
    for number in range(30):
        subset = ["warc", "robotstxt", "crawldiagnostics"][number % 3]
        name = f"crawl-data/CC-MAIN-2020-{10 + number % 2}/segments/15{number % 5}.1/{subset}/x.warc.gz"
        fields = {"url": f"http://a{number:02}.example.co.uk:8080/p?q={number}", "offset": str(number << 30), "filename": name}
        lines.append(f"uk,co,example,a{number:02}:8080)/p?q={number} 20200102030405 {json.dumps(fields)}\n")
    pathlib.Path("cc.cdxj").write_text("".join(lines))
    with pytest.raises(waypost.WaypostError, match="31 bits") as raised:
        waypost.to_parquet("cc.cdxj", "narrow")
    assert "--wide" in raised.value.hint and not pathlib.Path("narrow").exists()
    assert waypost.to_parquet("cc.cdxj", "table", wide=True)["files"] == 6
    query = "select subset, count(*), max(warc_record_offset), min(url_host_registered_domain), min(url_port), min(warc_segment) from 'table/**/*.parquet' group by subset order by subset"
    assert duckdb.sql(query).fetchall() == [
        ("crawldiagnostics", 10, 29 << 30, "example.co.uk", 8080, "150.1"),
        ("robotstxt", 10, 28 << 30, "example.co.uk", 8080, "150.1"),
        ("warc", 10, 27 << 30, "example.co.uk", 8080, "150.1"),
    ]


def test_unsorted_captures_are_sorted_first_and_many_parts_keep_the_order():
    lines = pathlib.Path("small.cdxj").read_bytes().splitlines(keepends=True)
    pathlib.Path("unsorted.cdxj").write_bytes(b"".join(reversed(lines)))
    assert not waypost.to_parquet("small.cdxj", "table", crawl="x")["sorted_first"]
    made = waypost.to_parquet("unsorted.cdxj", "other", crawl="x")
    assert made["sorted_first"] and made["rows"] == len(lines) and "sorted it first" in " ".join(made.messages)
    one, other = (pyarrow.dataset.dataset(name).to_table().sort_by([("url_surtkey", "ascending"), ("fetch_time", "ascending")]) for name in ("table", "other"))
    assert one.num_rows == other.num_rows and one.column_names == other.column_names
    assert pyarrow.dataset.dataset("other").to_table()["url_surtkey"].to_pylist() == sorted(line.split()[0].decode() for line in lines)
    assert sorted(map(str, one.to_pylist())) == sorted(map(str, other.to_pylist()))
    with open("big.cdxj", "wb") as out:
        for line in lines:
            key, timestamp, rest = line.split(b" ", 2)
            for number in range(100):
                out.write(b"%s %s%02d %s" % (key, timestamp[:12], number % 60, rest))
    waypost.sort_index("big.cdxj", "sorted.cdxj")
    made = waypost.to_parquet("sorted.cdxj", "parts", memory="64M")
    assert made["files"] > 2 and made["rows"] == 100 * len(lines)
    files = sorted(pathlib.Path("parts/crawl=sorted/subset=warc").iterdir())
    keys = [key for file in files for key in pyarrow.parquet.read_table(file, partitioning=None)["url_surtkey"].to_pylist()]
    assert keys == waypost.read("sorted.cdxj", ["urlkey"]).to_pyarrow()["urlkey"].to_pylist()


def parquet_like_common_crawl(path, compression, time):
    """The captures of small.cdxj as Common Crawl's own tools write them: other types, encodings and compression."""
    columns = {name: [] for name in ("url_surtkey", "url", "fetch_time", "fetch_status", "content_digest", "content_mime_type",
                                     "warc_filename", "warc_record_offset", "warc_record_length")}
    for row in rows():
        moment = datetime.datetime.strptime(row["timestamp"], "%Y%m%d%H%M%S")
        status = row.get("status", "-")
        values = (row["urlkey"], row["url"], moment, int(status) if status.isdigit() else -1, row.get("digest"), row.get("mime"),
                  row["filename"], int(row["offset"]), int(row["length"]))
        for column, value in zip(columns.values(), values):
            column.append(value)
    types = {"fetch_time": pyarrow.timestamp("us"), "fetch_status": pyarrow.int16(), "warc_record_offset": pyarrow.int32(), "warc_record_length": pyarrow.int64()}
    table = pyarrow.table({name: pyarrow.array(values, types.get(name)) for name, values in columns.items()})
    pyarrow.parquet.write_table(table, path, compression=compression, row_group_size=300, use_deprecated_int96_timestamps=time == "int96")


def test_parquet_is_an_input_of_every_command(command):
    waypost.to_parquet("small.cdxj", "table", rows=100)
    for name, compression, time in [("gzip.parquet", "gzip", "micros"), ("snappy.parquet", "snappy", "int96")]:
        parquet_like_common_crawl(name, compression, time)
    for index in ["table", FILES + "part-00000.zstd.parquet", "gzip.parquet", "snappy.parquet"]:
        waypost.build_map(index, "ours.ukvs")
        waypost.build_map("small.cdxj", "theirs.ukvs")
        assert pathlib.Path("ours.ukvs").read_text() == pathlib.Path("theirs.ukvs").read_text(), index
        fields = ["urlkey", "timestamp", "url", "status", "digest", "offset"]
        assert waypost.read(index, fields).to_pyarrow().equals(waypost.read("small.cdxj", fields).to_pyarrow()), index
        waypost.build_filter(index, "ours.filter")
        waypost.build_filter("small.cdxj", "theirs.filter")
        assert pathlib.Path("ours.filter").read_bytes() == pathlib.Path("theirs.filter").read_bytes(), index
    ours, theirs = waypost.stats("table")["totals"], waypost.stats("small.cdxj")["totals"]
    # The size of lines that are made while reading is not known.
    assert {**ours, "stored_bytes": None} == {**theirs, "stored_bytes": None}
    # Back to lines, and to Parquet again: nothing is lost.
    waypost.to_parquet("table", "again", crawl="small", rows=100)
    one, other = (pyarrow.dataset.dataset(name).to_table() for name in ("table", "again"))
    assert one.equals(other)
    # In ranges, and through URLs.
    from waypost import _commands, _waypost

    plan = _commands.call(["worker", "plan", "table", "gzip.parquet", "--", "map", "build", "-o", "ranges.ukvs"], False)[1].decode()
    pathlib.Path("partials").write_text("".join(_waypost.work(line) + "\n" for line in plan.splitlines()))
    _commands.call(["worker", "merge", "partials"], False)
    waypost.build_map(["small.cdxj", "small.cdxj"], "theirs.ukvs")
    assert pathlib.Path("ranges.ukvs").read_text() == pathlib.Path("theirs.ukvs").read_text()
    with serving(".", Web) as server:
        waypost.build_map(f"http://127.0.0.1:{server.server_address[1]}/gzip.parquet", "web.ukvs")
    waypost.build_map("small.cdxj", "theirs.ukvs")
    assert pathlib.Path("web.ukvs").read_text() == pathlib.Path("theirs.ukvs").read_text()


def test_damaged_and_other_tables_are_named():
    parquet_like_common_crawl("whole.parquet", "gzip", "micros")
    whole = pathlib.Path("whole.parquet").read_bytes()
    pathlib.Path("cut.parquet").write_bytes(whole[: len(whole) // 2])
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), "other.parquet")
    with pytest.raises(waypost.WaypostError, match="url_surtkey"):
        waypost.build_map("other.parquet", "map.ukvs")
    try:
        result = waypost.build_map("cut.parquet", "map.ukvs")
        assert not result.ok and any("cut.parquet" in message for message in result.messages), result.messages
    except waypost.WaypostError as error:
        assert "cut.parquet" in str(error)
