"""Waypost on Spark: ranges of the input are read by executors, and merged by the driver.

>>> from waypost import spark
>>> result = spark.build_map(None, "small.cdxj", "full.ukvs")   # None: on this machine
>>> result["map"]
'full.ukvs'

The first argument is a ``SparkSession``. Inputs are files that the driver and all executors have under
the same names, or URLs (``https:``, ``s3:``, ``webhdfs:``), which every executor reads by itself with range
requests; outputs are files. The unit of work is a range of a file; no line passes through the JVM. The package is shipped with the job, so executors need nothing but Python. The results have the
same bytes as those of the commands without Spark: tasks that fail, run twice or are killed change
nothing.
"""

import os
import shutil
import tempfile
import zipfile

from . import _commands, _waypost
from ._result import Result

__all__ = ["build_filter", "build_map", "check", "profile", "sort_index", "stats", "tabulate_segments"]


def profile(spark, inputs, output, *, size="64MiB", **options):
    """Build profiles: see :func:`waypost.profile`. ``size`` is that of a range."""
    if spark is None:
        return _commands.profile(inputs, output, **options)
    options = {**options, "output": os.path.abspath(output), "format": "json"}
    return _divide(spark, ["profile"], inputs, options, size)


def build_map(spark, inputs, output, *, size="64MiB", **options):
    """Build a map: see :func:`waypost.build_map`."""
    if spark is None:
        return _commands.build_map(inputs, output, **options)
    options = {**options, "output": os.path.abspath(output), "format": "json"}
    return _divide(spark, ["map", "build"], inputs, options, size)


def build_filter(spark, inputs, output, *, size="64MiB", **options):
    """Build a filter: see :func:`waypost.build_filter`."""
    if spark is None:
        return _commands.build_filter(inputs, output, **options)
    options = {**options, "output": os.path.abspath(output)}
    made = _divide(spark, ["filter", "build"], inputs, options, size)
    about = _commands.run(["filter", "info"], [os.path.abspath(output)], {}, False)
    return Result(about, made.ok, made.messages)


def check(spark, inputs, *, size="64MiB", **options):
    """Check an index: see :func:`waypost.check`."""
    if spark is None:
        return _commands.check(inputs, **options)
    return _divide(spark, ["index", "check"], inputs, {**options, "format": "json"}, size)


def stats(spark, inputs, *, size="64MiB", **options):
    """Show what an archive holds: see :func:`waypost.stats`."""
    if spark is None:
        return _commands.stats(inputs, **options)
    return _divide(spark, ["stats"], inputs, {**options, "format": "json"}, size)


def tabulate_segments(spark, inputs, output, *, size="64MiB", **options):
    """Count properties of a Common Crawl index by segment: see :func:`waypost.tabulate_segments`."""
    if spark is None:
        return _commands.tabulate_segments(inputs, output, **options)
    options = {**options, "output": os.path.abspath(output)}
    made = _divide(spark, ["segments", "tabulate"], inputs, options, size)
    return Result({"table": options["output"]}, made.ok, made.messages)


def _absolute(inputs):
    """Names that mean the same on all machines: absolute paths, and URLs as they are."""
    return [name if "://" in name else os.path.abspath(name) for name in _commands.names(inputs)]


def _divide(spark, command, inputs, options, size):
    """Run a command whose ranges are read by executors."""
    import json

    paths = _absolute(inputs)
    words = ["worker", "plan", "--size", str(size)] + paths + ["--"]
    words += _commands.arguments(command, options)
    _, plan, notes = _commands.call(words, False)
    context = spark.sparkContext
    setup = _ship(context)

    def work(line):
        setup()
        from waypost import _waypost

        return _waypost.work(line)

    with tempfile.TemporaryFile(prefix="waypost-") as spool:
        for partial in _in_order(context, plan.decode().splitlines(), work):
            spool.write(partial.encode() + b"\n")
        spool.flush()
        words = ["worker", "merge", f"/dev/fd/{spool.fileno()}"]
        ok, data, messages = _commands.call(words, False)
    return Result(json.loads(data) if "format" in options else {}, ok, notes + messages)


def _in_order(context, items, work):
    """Run one task per item, some at a time, so that the results of all need not fit in memory."""
    some = max(1, 4 * context.defaultParallelism)
    for start in range(0, len(items), some):
        wave = items[start : start + some]
        yield from context.parallelize(wave, len(wave)).map(work).collect()


def _ship(context):
    """Ship this package to the executors. Returns a function that makes it importable there."""
    home = os.path.dirname(os.path.abspath(__file__))
    name = f"waypost-{_waypost.__version__}"
    shipped = getattr(context, "_waypost_shipped", None)
    if shipped is None:
        # Shared libraries cannot be imported from a zip file; an archive is unpacked.
        folder = tempfile.mkdtemp(prefix="waypost-")
        path = os.path.join(folder, f"{name}.zip")
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted(os.listdir(home)):
                if file.endswith((".py", ".so", ".pyd", ".pyi")):
                    archive.write(os.path.join(home, file), f"waypost/{file}")
        context.addArchive(f"{path}#{name}")
        context._waypost_shipped = path

    # Pickled by value: the module is not known to the executor yet.
    def setup():
        import sys

        from pyspark import SparkFiles

        path = SparkFiles.get(name)
        if path not in sys.path:
            sys.path.insert(0, path)

    return setup


def sort_index(spark, inputs, output, *, shards=1, lines=3000, level=6, unique=False, partitions=None):
    """Sort indexes into a ZipNum folder of ``shards`` data files, in total order.

    Each executor sorts some of the input files. Samples of their lines give split points, between
    which the sorted files are merged. The lines are then written in blocks, whose borders do not
    depend on the split points. ``output`` must be in a folder that all machines share.
    """
    output = os.path.abspath(output)
    if spark is None:
        options = {"shards": shards, "lines": lines, "level": level, "unique": unique}
        return _commands.sort_index(inputs, output, zipnum=True, **options)
    if os.path.exists(output) and os.listdir(output):
        raise FileExistsError(f"{output} exists and is not empty")
    from . import _sort

    paths = _expanded(_absolute(inputs))
    context = spark.sparkContext
    setup = _ship(context)
    folder = tempfile.mkdtemp(prefix=".waypost-sort-", dir=os.path.dirname(output))
    try:
        runs = _tasks(context, setup, "sort", [(folder, *run) for run in enumerate(paths)])
        wanted = partitions or 4 * context.defaultParallelism
        splits = _sort.split_points([sample for _, samples in runs for sample in samples], wanted)
        files = [path for path, _ in runs]
        ranges = list(zip([b"", *splits], [*splits, None]))
        merged = _tasks(
            context,
            setup,
            "merge",
            [(folder, number, files, low, high, unique) for number, (low, high) in enumerate(ranges)],
        )
        for path in files:
            os.remove(path)
        work = _sort.shard_lines(merged, lines, shards)
        made = _tasks(
            context,
            setup,
            "shard",
            [(folder, number, merged, start, end, lines, level) for number, (start, end) in enumerate(work)],
        )
        _sort.assemble(folder, made, output)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    total = sum(count for _, count in merged)
    return Result({"output": output, "lines": total, "shards": len(made), "partitions": len(merged)})


def _tasks(context, setup, step, items):
    """Run a step of the sort, one task per item."""

    def work(item):
        setup()
        from waypost import _sort

        return getattr(_sort, step)(*item)

    return context.parallelize(items, max(1, len(items))).map(work).collect() if items else []


def _expanded(paths):
    """The files of folders, as the commands read them."""
    import json

    words = ["worker", "plan", "--size", "1TiB"] + paths + ["--", "index", "check"]
    _, plan, _ = _commands.call(words, False)
    files = []
    for line in plan.decode().splitlines():
        task = json.loads(line)
        if task["start"] == 0:
            files.append(task["path"])
    return files
