"""The commands of ``waypost`` as functions.

Each runs the command itself, in this process, with its options as keyword arguments:
``--by month`` is ``by="month"``, ``--gzip`` is ``gzip=True``, a list is joined by commas. What the
command prints as JSON is the :class:`~waypost.Result`.
"""

import json
import os
import sys

from . import _waypost
from ._result import Result


def names(paths):
    """One path or several, as a list of strings."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = [paths]
    return [os.fsdecode(os.fspath(path)) for path in paths]


#: Options that may be given more than once.
REPEATED = {"include", "exclude", "dc"}


def arguments(command, options):
    """The words of a command with these options.

    >>> arguments(["map", "build"], {"by": "year", "status": [200, "3xx"], "table": True, "mime": None})
    ['map', 'build', '--by', 'year', '--status', '200,3xx', '--table']
    """
    words = list(command)
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)) and name in REPEATED:
            for one in value:
                words += [option, os.fspath(one) if isinstance(one, os.PathLike) else str(one)]
        elif isinstance(value, (list, tuple)):
            words += [option, ",".join(map(str, value))]
        else:
            words += [option, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return words


class Bar:
    """Shows the progress of a command: with ``tqdm`` where it is installed, in notebooks as a widget."""

    def __init__(self):
        self.bar = None
        self.phase = None

    def __call__(self, phase, done, total):
        try:
            from tqdm.auto import tqdm
        except ImportError:
            percent = f" {100 * done // total}%" if total else ""
            print(f"\r{phase}{percent} ", end="", file=sys.stderr)
            self.phase = phase
            return
        if phase != self.phase:
            self.close()
            self.bar = tqdm(desc=phase, total=total, unit="B", unit_scale=True, leave=False)
            self.phase = phase
        self.bar.update(done - self.bar.n)

    def close(self):
        if self.bar is not None:
            self.bar.close()
        elif self.phase is not None:
            print("\r", end="", file=sys.stderr)


def interactive():
    """Whether somebody watches: a notebook or a terminal."""
    return "ipykernel" in sys.modules or (hasattr(sys, "ps1") and sys.stderr.isatty())


def call(words, progress=None):
    """Run a command given as words. Returns whether the answer is yes, its output and its messages."""
    if progress is None:
        progress = interactive()
    bar = Bar() if progress is True else None
    try:
        return _waypost.call([os.fsdecode(word) for word in words], bar or progress or None)
    finally:
        if bar:
            bar.close()


def run(command, inputs, options, progress=None):
    """Run a command that prints JSON."""
    words = arguments(command, options) + ["--format", "json", "--"] + inputs
    ok, data, messages = call(words, progress)
    return Result(json.loads(data), ok, messages)


def check(inputs, *, progress=None, **options):
    """Report what an index contains and what is wrong with it: ``waypost index check``.

    >>> result = check("small.cdxj", keys=True)
    >>> result["captures"] > 500, result["keys"]["best"]
    (True, 'ia')
    """
    return run(["index", "check"], names(inputs), options, progress)


def profile(inputs, output=None, *, progress=None, **options):
    """Build profiles of what an archive holds: ``waypost profile``. Without ``output``, only count.

    >>> result = profile("small.cdxj", "profiles", policy=["H3P0", "DDom"], id="small")
    >>> [one["policy"] for one in result["profiles"]]
    ['H3P0', 'DDom']
    """
    options = {**options, "output": output, "dry_run": output is None}
    return run(["profile"], names(inputs), options, progress)


def build_map(inputs, output, *, progress=None, **options):
    """Build a map of what an archive holds: ``waypost map build``.

    >>> result = build_map("small.cdxj", "full.ukvs", status=200)
    >>> result["map"], result["bad_lines"]
    ('full.ukvs', 0)
    """
    return run(["map", "build"], names(inputs), {**options, "output": output}, progress)


def compact(map, output, *, progress=None, **options):
    """Make a map smaller: ``waypost map compact``, by ``keys``, ``bytes`` or the papers' rule.

    >>> made = build_map("small.cdxj", "full.ukvs")
    >>> result = compact("full.ukvs", "small.ukvs", keys="10%")
    >>> result["keys"] < result["keys_before"] / 9
    True
    """
    return run(["map", "compact"], names(map), {**options, "output": output}, progress)


def build_filter(inputs, output, *, progress=None, **options):
    """Build a filter: ``waypost filter build``. The result is that of ``waypost filter info``.

    >>> result = build_filter("small.cdxj", "small.filter", kind="bloom", fpr="1%")
    >>> result["kind"]
    'bloom'
    """
    words = arguments(["filter", "build"], {**options, "output": output}) + ["--"] + names(inputs)
    ok, _, messages = call(words, progress)
    result = run(["filter", "info"], names(output), {}, False)
    return Result(result, ok, messages)


def evaluate(summaries, holdings, lookups, *, progress=None, **options):
    """Measure cost, accuracy, precision and recall of summaries: ``waypost evaluate``.

    >>> made = build_map("small.cdxj", "full.ukvs")
    >>> result = evaluate("full.ukvs", "small.cdxj", "lookups.txt")
    >>> result["summaries"][0]["recall"]
    1.0
    """
    words = arguments(["evaluate"], options)
    for name, values in [("--holdings", holdings), ("--lookups", lookups)]:
        for value in names(values):
            words += [name, value]
    words += ["--format", "json", "--"] + names(summaries)
    ok, data, messages = call(words, progress)
    return Result({"summaries": json.loads(data)}, ok, messages)


def to_parquet(inputs, output, *, progress=None, **options):
    """Write an index as Parquet: ``waypost index parquet``, in Common Crawl's columnar schema.

    >>> result = to_parquet("small.cdxj", "table")
    >>> result["rows"], result["files"]
    (757, 1)
    >>> import duckdb
    >>> query = "select crawl, count(*) from 'table/**/*.parquet' group by crawl"
    >>> duckdb.sql(query).fetchall()
    [('small', 757)]
    """
    return run(["index", "parquet"], names(inputs), {**options, "output": output}, progress)


def stats(inputs, *, progress=None, **options):
    """Show what an archive holds: ``waypost stats``. ``html`` names a page to write, too.

    >>> result = stats("small.cdxj", html="small.html")
    >>> result["totals"]["captures"]
    757
    """
    return run(["stats"], names(inputs), options, progress)


def tabulate_segments(inputs, output, *, progress=None, **options):
    """Count properties of a Common Crawl index by segment: ``waypost segments tabulate``.

    >>> tabulate_segments("segments.cdxj", "crawl.segments", by=["mime", "tld"])
    {'table': 'crawl.segments'}
    """
    words = arguments(["segments", "tabulate"], {**options, "output": output}) + ["--"] + names(inputs)
    ok, _, messages = call(words, progress)
    return Result({"table": os.fsdecode(os.fspath(output))}, ok, messages)


def sort_index(inputs, output, *, progress=None, **options):
    """Sort indexes into one file, or with ``zipnum=True`` into a ZipNum folder: ``waypost index sort``.

    >>> sort_index("small.cdxj", "sorted.cdxj.gz").ok
    True
    """
    zipnum = options.pop("zipnum", False)
    options["zipnum" if zipnum else "output"] = output
    words = arguments(["index", "sort"], options) + ["--"] + names(inputs)
    ok, _, messages = call(words, progress)
    return Result({"output": os.fsdecode(os.fspath(output))}, ok, messages)
