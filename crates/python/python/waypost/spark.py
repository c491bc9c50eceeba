"""Waypost on Spark: executors read ranges of the input, and the driver merges their results.

>>> from waypost import spark
>>> result = spark.build_map(None, "small.cdxj", "full.ukvs")   # None: on this machine
>>> result["map"]
'full.ukvs'

The first argument is a ``SparkSession``. Inputs are files that the driver and all executors have under
the same names, or URLs (``https:``, ``s3:``, ``webhdfs:``), which every executor reads by itself with range
requests; outputs are files. The unit of work is a range of a file; no line passes through the JVM. The
package is shipped with the job, so executors need nothing but Python. The results have the same bytes as
those of the commands without Spark: tasks that fail, run twice or are killed change nothing.
"""

import atexit
import json
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


#: The most bytes of results that are combined in one task, or fetched by the driver at once.
MOST = 64 << 20
#: The most results that are combined in one task.
FAN_IN = 32
#: With more inputs than this, executors divide them into ranges.
FEW = 16


def _divide(spark, command, inputs, options, size):
    """Run a command whose ranges are read by executors."""
    context = spark.sparkContext
    setup = _ship(context)
    words = ["worker", "plan", "--size", str(size)]
    tasks, notes = _plan(context, setup, words, _absolute(inputs), _commands.arguments(command, options))
    with tempfile.TemporaryFile(prefix="waypost-") as spool:
        for partial in _results(context, setup, tasks):
            spool.write(partial.encode() + b"\n")
        spool.flush()
        words = ["worker", "merge", f"/dev/fd/{spool.fileno()}"]
        ok, data, messages = _commands.call(words, False)
    return Result(json.loads(data) if "format" in options else {}, ok, notes + messages)


def _plan(context, setup, words, paths, command):
    """The ranges of all inputs, and messages about them.

    To divide a gzip file, some of it is read, which takes long for many remote files. So executors do
    it, except for the first input: what is wrong with the command is found before anything is read.
    """

    # Pickled by value: nothing of this package is known to the executor before `setup`.
    def divide(path):
        setup()
        from waypost import WaypostError, _commands

        try:
            _, plan, notes = _commands.call([*words, path, "--", *command], False)
        except WaypostError as error:
            return str(error), vars(error)
        return plan.decode().splitlines(), notes

    if len(paths) <= FEW:
        _, plan, notes = _commands.call([*words, *paths, "--", *command], False)
        plans = [(plan.decode().splitlines(), notes)]
    else:
        _, plan, notes = _commands.call([*words, paths[0], "--", *command], False)
        plans = [(plan.decode().splitlines(), notes)]
        slices = min(len(paths) - 1, 4 * context.defaultParallelism)
        plans += _checked(context.parallelize(paths[1:], slices).map(divide).collect())
    tasks, messages, sources = [], [], 0
    for lines, notes in plans:
        some = [json.loads(line) for line in lines]
        for task in some:
            task["source"] += sources
        sources = some[-1]["source"] + 1 if some else sources
        tasks += some
        messages += notes
    for number, task in enumerate(tasks):
        task.update(number=number, ranges=len(tasks))
    return tasks, messages


def _results(context, setup, tasks):
    """The results of all ranges, in order. Executors combine them as long as they become smaller."""
    from pyspark import StorageLevel

    def work(line):
        setup()
        from waypost import WaypostError, _waypost

        try:
            return _waypost.work(line)
        except WaypostError as error:
            # What is wrong with a line is wrong again when the task is repeated.
            if error.line is None:
                raise
            return str(error), vars(error)

    def combine(numbered):
        setup()
        from waypost import _waypost

        yield _waypost.combine([line for _, (_, line) in sorted(numbered)])

    def measured(results):
        results.persist(StorageLevel.DISK_ONLY)
        measure = results.map(lambda result: len(result) if isinstance(result, str) else result)
        return _checked(measure.collect())

    def fetch(first, end):
        return context.runJob(results, lambda lines: lines, list(range(first, end)))

    lines = [json.dumps(task) for task in tasks]
    sources = [task["source"] for task in tasks]
    results = context.parallelize(lines, len(lines)).map(work)
    try:
        sizes = measured(results)
        while True:
            groups = _groups(sources, sizes)
            largest = max(groups, key=lambda group: group[1] - group[0])
            # Tried with one group: the results of most commands stay as large as they are.
            before = sum(sizes[slice(*largest)])
            if largest[1] - largest[0] == 1 or len(_waypost.combine(fetch(*largest))) > before / 2:
                break
            numbers = [number for number, group in enumerate(groups) for _ in range(*group)]
            numbered = results.mapPartitionsWithIndex(
                lambda index, lines: ((numbers[index], (index, line)) for line in lines)
            )
            combined = numbered.partitionBy(len(groups), lambda number: number).mapPartitions(combine)
            sizes, sources = measured(combined), [sources[first] for first, _ in groups]
            results.unpersist()
            results = combined
        for first, end in _groups([0] * len(sizes), sizes):
            yield from fetch(first, end)
    finally:
        results.unpersist()


def _groups(sources, sizes):
    """Consecutive results of the same file, as many as may be handled at once.

    >>> _groups([0, 0, 0, 1], [10, MOST, 20, 30])
    [(0, 1), (1, 2), (2, 3), (3, 4)]
    >>> _groups([0, 0, 0, 1], [10, 20, 30, 40])
    [(0, 3), (3, 4)]
    """
    groups, total = [], 0
    for number, (source, size) in enumerate(zip(sources, sizes)):
        first = groups[-1][0] if groups else number
        total += size
        if groups and sources[first] == source and total <= MOST and number - first < FAN_IN:
            groups[-1] = (first, number + 1)
        else:
            groups.append((number, number + 1))
            total = size
    return groups


def _checked(results):
    """The results of tasks; an error that one has returned, as its message and attributes, is raised."""
    for result in results:
        if isinstance(result, tuple) and isinstance(result[0], str):
            error = _waypost.WaypostError(result[0])
            vars(error).update(result[1])
            raise error
    return results


def _ship(context):
    """Ship this package to the executors. Returns a function that makes it importable there."""
    home = os.path.dirname(os.path.abspath(__file__))
    name = f"waypost-{_waypost.__version__}"
    shipped = getattr(context, "_waypost_shipped", None)
    if shipped is None:
        # Shared libraries cannot be imported from a zip file; an archive is unpacked.
        folder = tempfile.mkdtemp(prefix="waypost-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
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
        wanted = partitions or 4 * context.defaultParallelism
        samples = _sort.samples_per_file(len(paths), wanted)
        sampled = _tasks(
            context, setup, "sort", [(folder, number, path, samples) for number, path in enumerate(paths)]
        )
        splits = _sort.split_points(sampled, wanted)
        ranges = list(zip([b"", *splits], [*splits, None]))
        merged = _tasks(
            context,
            setup,
            "merge",
            [(folder, number, len(paths), low, high, unique) for number, (low, high) in enumerate(ranges)],
        )
        for number in range(len(paths)):
            os.remove(_sort.run_of(folder, number))
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
    words = ["worker", "plan", "--size", "1TiB"] + paths + ["--", "index", "check"]
    _, plan, _ = _commands.call(words, False)
    files = []
    for line in plan.decode().splitlines():
        task = json.loads(line)
        if task["start"] == 0:
            files.append(task["path"])
    return files
