"""Which segments of a Common Crawl archive stand for the whole: the commands of ``waypost segments``.

>>> from waypost import segments
>>> segments.tabulate("segments.cdxj", "crawl.segments", by=["mime", "tld"])
{'table': 'crawl.segments'}
>>> [crawl["properties"][0]["property"] for crawl in segments.rank("crawl.segments")["crawls"]]
['mime']
"""

from ._commands import arguments, call, names, run, tabulate_segments as tabulate
from ._result import Result

__all__ = ["merge", "overlap", "predict", "rank", "tabulate"]


def merge(tables, output, *, progress=None, **options):
    """Merge tables of parts of one crawl: ``waypost segments merge``.

    >>> made = tabulate("segments.cdxj", "part.segments")
    >>> merge(["part.segments", "part.segments"], "whole.segments")
    {'table': 'whole.segments'}
    """
    output = names(output)[0]
    words = arguments(["segments", "merge"], {**options, "output": output}) + ["--"] + names(tables)
    ok, _, messages = call(words, progress)
    return Result({"table": output}, ok, messages)


def rank(tables, *, progress=None, **options):
    """Rank segments by how much they resemble the whole: ``waypost segments rank``.

    >>> made = tabulate("segments.cdxj", "crawl.segments")
    >>> best = rank("crawl.segments", html="rank.html")["crawls"][0]["combined"][0]
    >>> best["mean"]
    3.0
    """
    return run(["segments", "rank"], names(tables), options, progress)


def predict(tables, *, progress=None, **options):
    """Show how well the best segments of one property stand for another: ``waypost segments predict``.

    >>> made = tabulate("segments.cdxj", "crawl.segments")
    >>> [basis["property"] for basis in predict("crawl.segments")["bases"]]
    ['mime', 'language', 'length']
    """
    return run(["segments", "predict"], names(tables), options, progress)


def overlap(first, second, *, progress=None, **options):
    """Count the URI-Rs and contents that two crawls have in common: ``waypost segments overlap``.

    >>> overlap("segments.cdxj", "segments.cdxj")["uris"]["similarity"]
    1.0
    """
    return run(["segments", "overlap"], names(first) + names(second), options, progress)
