"""Spark jobs, on a real cluster of two executors: the same bytes as the commands.

The executors run a Python that has neither this package nor pyarrow: the package is shipped with the job.
With WAYPOST_SPARK=full, also when a task is killed, with speculation, and when the disk is full.
"""

import gzip
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import venv

import pytest

import waypost
import waypost._sort
import waypost.spark
from conftest import EXAMPLES, contents
from stores import KEYS, Web, hdfs, s3, serving

pyspark = pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("no Java", allow_module_level=True)

FULL = os.environ.get("WAYPOST_SPARK") == "full"
full = pytest.mark.skipif(not FULL, reason="runs with ./test spark")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python without any packages."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")


def session(bare, plain={}, **settings):
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = bare
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("waypost")
    builder = builder.config("spark.ui.enabled", "false").config("spark.executor.memory", "512m")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    for name, value in settings.items():
        builder = builder.config("spark." + name.replace("_", "."), value)
    for name, value in plain.items():
        builder = builder.config("spark." + name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


@pytest.fixture(scope="module")
def spark(bare):
    spark = session(bare)
    yield spark
    spark.stop()


@pytest.fixture
def inputs(folder):
    """A plain file, and a gzip file of many members, in a folder."""
    text = (EXAMPLES / "small.cdxj").read_bytes()
    lines = text.splitlines(keepends=True)
    (folder / "in").mkdir()
    (folder / "in/a.cdxj").write_bytes(b"".join(reversed(lines)))
    members = [gzip.compress(b"".join(lines[at : at + 100])) for at in range(0, len(lines), 100)]
    (folder / "in/b.cdxj.gz").write_bytes(b"".join(members))
    return folder / "in"


def larger(folder, copies):
    """An index with many URI-Rs."""
    text = (EXAMPLES / "small.cdxj").read_text()
    path = folder / "larger.cdxj"
    with path.open("w") as out:
        for copy in range(copies):
            out.write(text.replace(",example", f",example{copy}").replace(".example", f".example{copy}"))
    return path


def test_a_map_and_a_sorted_index_have_the_same_bytes(spark, inputs, command):
    made = waypost.spark.build_map(spark, inputs, "ours.ukvs", size="16K")
    command("map", "build", inputs, "-o", "theirs.ukvs")
    assert contents("ours.ukvs") == contents("theirs.ukvs") and made["keys"] > 100
    waypost.spark.sort_index(spark, inputs, "ours.zipnum", shards=20, lines=30)
    command("index", "sort", inputs, "--zipnum", "theirs.zipnum", "--shards", 20, "--lines", 30)
    assert len(contents("ours.zipnum")) == 22
    assert contents("ours.zipnum") == contents("theirs.zipnum")
    assert not [name for name in os.listdir() if name.startswith(".waypost")]


@full
def test_profiles_filters_and_checks_have_the_same_bytes(spark, inputs, command):
    waypost.spark.profile(spark, inputs, "ours", size="16K", by="month", id="x")
    command("profile", inputs, "-o", "theirs", "--by", "month", "--id", "x")
    assert contents("ours") == contents("theirs") and len(contents("ours")) == 23
    made = waypost.spark.build_filter(spark, inputs, "ours.filter", size="16K", fpr="1%")
    command("filter", "build", inputs, "-o", "theirs.filter", "--fpr", "1%")
    assert contents("ours.filter") == contents("theirs.filter") and made["kind"] == "ribbon"
    index = EXAMPLES / "segments.cdxj"
    waypost.spark.tabulate_segments(spark, index, "ours.segments", size="16K")
    command("segments", "tabulate", index, "-o", "theirs.segments")
    assert contents("ours.segments") == contents("theirs.segments")
    ours = waypost.spark.stats(spark, inputs, size="16K")
    assert ours == json.loads(command("stats", inputs, "--format", "json"))
    ours = waypost.spark.check(spark, inputs, size="16K")
    assert ours == json.loads(command("index", "check", inputs, "--format", "json")) and not ours.ok


@full
def test_statistics_and_tables_of_segments_have_the_same_bytes(spark, inputs, command):
    for size in ["4K", "64K", "1G"]:
        waypost.spark.stats(spark, inputs, size=size, html=os.path.abspath("ours.html"))
        command("stats", inputs, "--html", "theirs.html")
        assert contents("ours.html") == contents("theirs.html"), size
        index = EXAMPLES / "segments.cdxj"
        waypost.spark.tabulate_segments(spark, index, "ours.segments", size=size, by=["mime", "tld", "length"])
        command("segments", "tabulate", index, "-o", "theirs.segments", "--by", "mime,tld,length")
        assert contents("ours.segments") == contents("theirs.segments"), size


@full
def test_results_are_combined_by_executors(spark, folder, command, monkeypatch):
    merged = []
    call = waypost._commands.call

    def spy(words, progress=None):
        if words[:2] == ["worker", "merge"]:
            merged.append(pathlib.Path(words[2]).read_bytes().splitlines())
        return call(words, progress)

    monkeypatch.setattr(waypost._commands, "call", spy)
    monkeypatch.setattr(waypost.spark, "FAN_IN", 8)
    crawl = folder / "crawl.cdxj"
    crawl.write_bytes(20 * (EXAMPLES / "segments.cdxj").read_bytes())
    # Two rounds: 40 ranges become 5, and then one for each file.
    inputs, size = [crawl, EXAMPLES / "segments.cdxj"], str(crawl.stat().st_size // 40 + 1)
    waypost.spark.tabulate_segments(spark, inputs, "ours.segments", size=size, by="mime")
    command("segments", "tabulate", *inputs, "-o", "theirs.segments", "--by", "mime")
    assert contents("ours.segments") == contents("theirs.segments")
    assert len(merged.pop()) == 2
    # Results that do not become smaller are not combined.
    path = larger(folder, 20)
    waypost.spark.build_map(spark, path, "ours.ukvs", size=str(path.stat().st_size // 40 + 1))
    command("map", "build", path, "-o", "theirs.ukvs")
    assert contents("ours.ukvs") == contents("theirs.ukvs")
    assert len(merged.pop()) == 40


@full
def test_many_inputs_are_divided_by_executors(spark, folder, command):
    lines = (EXAMPLES / "small.cdxj").read_bytes().splitlines(keepends=True)
    names = []
    for number in range(20):
        path = folder / f"{number:02}.cdxj.gz"
        path.write_bytes(gzip.compress(b"".join(lines[number::20])))
        names.append(path)
    waypost.spark.profile(spark, names, "ours", size="2K", id="x", sources=True)
    command("profile", *names, "-o", "theirs", "--id", "x", "--sources")
    assert contents("ours") == contents("theirs")
    with pytest.raises(waypost.WaypostError) as raised:
        waypost.spark.profile(spark, [*names, folder / "missing.cdxj"], "none", id="x")
    assert raised.value.file == str(folder / "missing.cdxj") and raised.value.hint
    assert not (folder / "none").exists()


@full
def test_spark_sql_reads_the_parquet(spark, folder):
    waypost.to_parquet("small.cdxj", "table", rows=100)
    frame = spark.read.parquet(str(folder / "table"))
    lines = (folder / "small.cdxj").read_text().splitlines()
    assert frame.count() == len(lines) and len(frame.columns) == 32
    assert frame.where("crawl = 'small'").selectExpr("min(url_surtkey)").first()[0] == lines[0].split()[0]


@full
def test_unique_lines_and_any_split_points_give_the_same_index(spark, inputs, command):
    for partitions in [1, 3, 50]:
        waypost.spark.sort_index(spark, inputs, f"ours{partitions}", shards=4, lines=7, unique=True, partitions=partitions)
        command("index", "sort", inputs, "--unique", "--zipnum", f"theirs{partitions}", "--shards", 4, "--lines", 7)
        assert contents(f"ours{partitions}") == contents(f"theirs{partitions}"), partitions


@full
def test_errors_of_tasks_are_shown_and_nothing_is_written(spark, inputs, folder):
    lines = (inputs / "a.cdxj").read_text().splitlines()
    lines[90] = "not a capture"
    (inputs / "a.cdxj").write_text("\n".join(lines))
    with pytest.raises(waypost.WaypostError, match="a.cdxj") as raised:
        waypost.spark.build_map(spark, inputs, "ours.ukvs", size="16K", strict=True)
    assert (raised.value.file, raised.value.line) == (str(inputs / "a.cdxj"), 91)
    with pytest.raises(waypost.WaypostError, match="missing"):
        waypost.spark.build_map(spark, "missing", "ours.ukvs")
    (folder / "taken").mkdir()
    (folder / "taken/file").touch()
    with pytest.raises(FileExistsError):
        waypost.spark.sort_index(spark, inputs, "taken")
    assert not (folder / "ours.ukvs").exists()
    assert not [name for name in os.listdir() if name.startswith(".waypost")]


def descendants(pid):
    """All processes below one, with their command lines."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found, grown = {pid}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        grown = bool(more)
        found |= more
    return found - {pid}, parents


def kill_a_worker(spark, stop, killed):
    """Kill a Python worker of an executor once it has worked for a while."""
    root = spark.sparkContext._gateway.proc.pid
    ticks = os.sysconf("SC_CLK_TCK")
    while not stop.is_set() and not killed:
        below, parents = descendants(root)
        for pid in below:
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            is_leaf = pid not in parents.values()
            if b"pyspark.daemon" in words and is_leaf and (int(fields[11]) + int(fields[12])) / ticks > 0.2:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                break
        time.sleep(0.01)


@pytest.fixture
def split_points(monkeypatch):
    """The split points of each sort, by the driver; every task gets its own from there."""
    chosen = []
    choose = waypost._sort.split_points

    def spy(sampled, partitions):
        chosen.append(choose(sampled, partitions))
        return chosen[-1]

    monkeypatch.setattr(waypost._sort, "split_points", spy)
    return chosen


@full
def test_a_killed_task_changes_nothing(spark, folder, command, split_points):
    path = larger(folder, 400)
    waypost.spark.sort_index(spark, path, "quiet.zipnum", shards=20)
    stop, killed = threading.Event(), []
    killer = threading.Thread(target=kill_a_worker, args=(spark, stop, killed))
    killer.start()
    try:
        waypost.spark.build_map(spark, path, "ours.ukvs", size="2M")
        waypost.spark.sort_index(spark, path, "ours.zipnum", shards=20)
    finally:
        stop.set()
        killer.join()
    assert killed, "no worker was killed"
    command("map", "build", path, "-o", "theirs.ukvs")
    assert contents("ours.ukvs") == contents("theirs.ukvs")
    command("index", "sort", path, "--zipnum", "theirs.zipnum", "--shards", 20)
    assert contents("ours.zipnum") == contents("quiet.zipnum") == contents("theirs.zipnum")
    assert len(split_points) == 2 and split_points[0] == split_points[1] and len(split_points[0]) > 2


@full
def test_executors_read_the_web_s3_and_hdfs_by_themselves(bare, folder, inputs, command):
    # A new cluster, whose executors know the keys; the one of the other tests is stopped.
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active:
        active.stop()
    command("map", "build", inputs, "-o", "theirs.ukvs")
    command("index", "sort", inputs, "--zipnum", "theirs.zipnum", "--shards", 5, "--lines", 30)
    files = sorted(inputs.iterdir())
    with s3(files) as settings, serving(inputs, Web) as web, hdfs(inputs) as name_node:
        environment = {f"executorEnv.{name}": value for name, value in settings.items()}
        assert set(KEYS) < set(settings)
        spark = session(bare, plain=environment)
        try:
            for name, base in [
                ("web", f"http://127.0.0.1:{web.server_address[1]}"),
                ("s3", "s3://crawl/cdx files"),
                ("hdfs", f"webhdfs://127.0.0.1:{name_node.server_address[1]}"),
            ]:
                paths = [f"{base}/{file.name}" for file in files]
                waypost.spark.build_map(spark, paths, f"{name}.ukvs", size="16K")
                assert contents(f"{name}.ukvs") == contents("theirs.ukvs"), name
                waypost.spark.sort_index(spark, paths, f"{name}.zipnum", shards=5, lines=30)
                assert contents(f"{name}.zipnum") == contents("theirs.zipnum"), name
        finally:
            spark.stop()


@full
def test_speculation_and_a_full_disk(bare, folder, inputs, command):
    # A new cluster with other settings; the one of the other tests is stopped.
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active:
        active.stop()
    small = folder / "tmpfs"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small]).returncode == 0
    settings = {"speculation": "true", "speculation_multiplier": "1.01", "speculation_quantile": "0.1"}
    settings["speculation_interval"] = "10ms"
    settings["speculation_minTaskRuntime"] = "1ms"
    settings["executorEnv_TMPDIR"] = str(small)
    spark = session(bare, **settings)
    try:
        waypost.spark.build_map(spark, inputs, "ours.ukvs", size="8K")
        command("map", "build", inputs, "-o", "theirs.ukvs")
        assert contents("ours.ukvs") == contents("theirs.ukvs")
        waypost.spark.sort_index(spark, inputs, "ours.zipnum", shards=20, lines=30)
        command("index", "sort", inputs, "--zipnum", "theirs.zipnum", "--shards", 20, "--lines", 30)
        assert contents("ours.zipnum") == contents("theirs.zipnum")
        if mounted:
            # More than the memory limit, which has to be spilled.
            path = folder / "many.cdxj"
            with path.open("w") as out:
                for number in range(500_000):
                    name = hashlib.sha1(b"%d" % number).hexdigest()
                    out.write(f"com,example)/{name} 2020 {{\"url\": \"http://example.com/{name}\"}}\n")
            with pytest.raises(Exception, match="No space left"):
                waypost.spark.build_map(spark, path, "full.ukvs", size="1G", memory="64M")
            assert not (folder / "full.ukvs").exists()
        else:
            print("skipped the full disk: a tmpfs cannot be mounted here")
    finally:
        spark.stop()
        if mounted:
            subprocess.run(["umount", small], check=True)
