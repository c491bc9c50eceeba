"""The captures of indexes as Arrow record batches."""

import os
import tempfile

from . import _waypost
from ._commands import call, names

#: What :func:`read` returns by default.
FIELDS = ["urlkey", "timestamp", "url", "mime", "status", "digest", "length", "offset", "filename"]


class Captures(_waypost.Captures):
    """Captures that are read when they are needed; see :func:`read`.

    Any library that imports Arrow streams can read them: ``polars.DataFrame(captures)``,
    ``pyarrow.table(captures)``, DuckDB by the name of the variable. Each use reads from the start.
    ``report`` has the number of lines and what was wrong with them, once all were read.
    """

    def __new__(cls, paths, fields, where, strict, _folder=None):
        filters = []
        for name, value in (where or {}).items():
            values = value if name in ("include", "exclude") and not isinstance(value, str) else [value]
            for one in values:
                if isinstance(one, (list, tuple)):
                    one = ",".join(map(str, one))
                filters.append((name, str(one)))
        self = super().__new__(cls, names(paths), list(fields), filters, strict)
        self._folder = _folder
        return self

    def to_pyarrow(self):
        """Read everything into a ``pyarrow.Table``."""
        return self.reader().read_all()

    def to_pandas(self):
        """Read everything into a ``pandas.DataFrame``."""
        return self.to_pyarrow().to_pandas()

    def to_polars(self):
        """Read everything into a ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self)

    def reader(self):
        """A ``pyarrow.RecordBatchReader``."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self)

    def __iter__(self):
        return iter(self.reader())


def read(paths, fields=FIELDS, where=None, strict=False):
    """Read the captures of indexes: CDX, CDXJ, ZipNum or WACZ, in any compression, or WARC files.

    ``paths`` is a file or folder, or a list of them. ``fields`` are ``urlkey``, ``timestamp`` and those
    of Common Crawl's index: ``url``, ``mime``, ``status``, ``digest``, ``length``, ``offset``,
    ``filename``, ``languages``, … ``where`` are filters by the names of the command's options:
    ``status``, ``mime``, ``from_``, ``to``, ``include``, ``exclude``, ``revisits``.

    >>> captures = read("small.cdxj", ["urlkey", "status"], where={"status": [200, "3xx"]})
    >>> sum(batch.num_rows for batch in captures) == captures.report["selected"]
    True
    >>> import polars
    >>> polars.DataFrame(read("small.cdxj", ["mime"], {"mime": "text/html"}))["mime"].unique().to_list()
    ['text/html']

    Bad lines are counted in ``report``; with ``strict``, the first is an error.
    """
    paths = names(paths)
    folder = None
    for number, path in enumerate(paths):
        if path.endswith((".warc", ".warc.gz", ".warc.zst", ".arc", ".arc.gz")) and os.path.isfile(path):
            # WARC files are indexed first.
            folder = folder or tempfile.TemporaryDirectory(prefix="waypost-")
            paths[number] = os.path.join(folder.name, f"{number}.cdxj")
            call(["index", "warc", path, "-o", paths[number]])
    return Captures(paths, fields, where, strict, folder)
