"""The captures of indexes as Arrow record batches."""

import contextlib
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
        with self._errors():
            return self.reader().read_all()

    def to_pandas(self):
        """Read everything into a ``pandas.DataFrame``."""
        return self.to_pyarrow().to_pandas()

    def to_polars(self):
        """Read everything into a ``polars.DataFrame``."""
        import polars

        with self._errors():
            return polars.DataFrame(self)

    def reader(self):
        """A ``pyarrow.RecordBatchReader``. Its errors are those of pyarrow, with the message of ours."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self)

    def __iter__(self):
        with self._errors():
            yield from self.reader()

    @contextlib.contextmanager
    def _errors(self):
        """Raise what ended the reading, with its file and line, instead of the error of another library."""
        try:
            yield
        except Exception as error:
            cause = self._error()
            if cause is None:
                raise
            raise cause from error


#: How the names of WARC and ARC files end.
WARCS = tuple(kind + packed for kind in (".warc", ".arc") for packed in ("", ".gz", ".zst"))


def is_warc(path):
    """Whether a path or URL names a WARC or ARC file, or a folder of nothing else."""
    if "://" not in path and os.path.isdir(path):
        files = [name for _, _, names in os.walk(path) for name in names if not name.startswith(".")]
        return bool(files) and all(name.endswith(WARCS) for name in files)
    return path.endswith(WARCS)


def read(paths, fields=FIELDS, where=None, strict=False):
    """Read the captures of indexes: CDX, CDXJ, ZipNum or WACZ, in any compression, or WARC files.

    ``paths`` is a file, folder or URL, or a list of them. ``fields`` are ``urlkey``, ``timestamp`` and those
    of Common Crawl's index: ``url``, ``mime``, ``status``, ``digest``, ``length``, ``offset``,
    ``filename``, ``languages``, … ``where`` are filters by the names of the command's options:
    ``status``, ``mime``, ``from_``, ``to``, ``include``, ``exclude``, ``exclude_list``, ``revisits``.

    >>> captures = read("small.cdxj", ["urlkey", "status"], where={"status": [200, "3xx"]})
    >>> sum(batch.num_rows for batch in captures) == captures.report["selected"]
    True
    >>> import polars
    >>> polars.DataFrame(read("small.cdxj", ["mime"], {"mime": "text/html"}))["mime"].unique().to_list()
    ['text/html']

    Bad lines are counted in ``report``; with ``strict``, the first is an error, with its file and line.
    """
    paths = names(paths)
    folder = None
    for number, path in enumerate(paths):
        if is_warc(path):
            # WARC files are indexed first.
            folder = folder or tempfile.TemporaryDirectory(prefix="waypost-")
            paths[number] = os.path.join(folder.name, f"{number}.cdxj")
            call(["index", "warc", path, "-o", paths[number]], False)
    return Captures(paths, fields, where, strict, folder)
