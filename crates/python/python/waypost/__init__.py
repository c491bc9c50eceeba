"""Waypost: what web archives hold, written small.

SURTs and keys of URIs, one or millions:

>>> import waypost
>>> waypost.surt("https://www.Example.com/a?y=2&x=1#top")
'com,example)/a?x=1&y=2'
>>> waypost.surt(["http://example.com/b/", "http://example.com:99999/", None])
['com,example)/b', None, None]
>>> waypost.keys("https://www.news.bbc.co.uk/images/Logo.png", ["H3P0", "DDom"])
{'H3P0': 'uk,co,bbc)/', 'DDom': 'uk,co,bbc)/'}

Summaries of an index, and lookups in them:

>>> made = waypost.build_filter("small.cdxj", "small.filter")
>>> made["keys"] > 100
True
>>> with waypost.open("small.filter") as summary:
...     summary.lookup_many(["http://library.example.org/", "http://nothing.example.net/"])
['present', 'absent']

The captures of any index as Arrow record batches:

>>> table = waypost.read("small.cdxj", ["urlkey", "status"], where={"status": "200"}).to_pyarrow()
>>> table.column_names
['urlkey', 'status']

Errors have a file, a line and a hint where there is one:

>>> try:
...     waypost.check("missing.cdx")
... except waypost.WaypostError as error:
...     print(error.file, "-", error.hint)
missing.cdx - check the path
"""

from . import segments, spark
from ._arrays import keys, surt
from ._captures import Captures, read
from ._commands import (
    build_filter,
    build_map,
    check,
    compact,
    evaluate,
    profile,
    sort_index,
    stats,
    tabulate_segments,
    to_parquet,
)
from ._result import Result
from ._summary import Answer, Summary, open
from ._waypost import WaypostError, __version__
from ._waypost import policies as _policies

#: The names of the 23 policies.
POLICIES = tuple(_policies())

__all__ = [
    "Answer",
    "Captures",
    "POLICIES",
    "Result",
    "Summary",
    "WaypostError",
    "__version__",
    "build_filter",
    "build_map",
    "check",
    "compact",
    "evaluate",
    "keys",
    "open",
    "profile",
    "read",
    "segments",
    "sort_index",
    "spark",
    "stats",
    "surt",
    "tabulate_segments",
    "to_parquet",
]
