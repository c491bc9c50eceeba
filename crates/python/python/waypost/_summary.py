"""Lookups in a profile, map or filter."""

import os
from typing import NamedTuple, Optional

from . import _waypost
from ._arrays import column


class Answer(NamedTuple):
    """What a summary says about a URI.

    ``presence`` is ``absent``, which is certain, ``present``, or ``unknown`` if the summary does not
    cover the URI. The key that matched, with its captures and URI-Rs, is known to profiles and maps.
    """

    presence: str
    key: Optional[str] = None
    captures: Optional[int] = None
    urirs: Optional[int] = None

    def __bool__(self):
        """Whether the archive may hold it."""
        return self.presence != "absent"


class Summary(_waypost.Summary):
    """A profile, map or filter; see :func:`waypost.open`."""

    def __new__(cls, path, key_file=None):
        path = os.fspath(path)
        self = super().__new__(cls, path, key_file)
        self._arguments = (path, key_file)
        return self

    def lookup(self, uri):
        """Look up a URI or SURT.

        >>> import waypost
        >>> waypost.build_map("small.cdxj", "small.ukvs")["keys"] > 100
        True
        >>> answer = waypost.open("small.ukvs").lookup("http://library.example.org/")
        >>> answer.presence, answer.key, bool(answer)
        ('present', 'org,example,library)/', True)
        """
        return Answer(*self._lookup(uri))

    def lookup_many(self, uris):
        """Look up a column of URIs: a list, a ``pyarrow`` array, a Polars or pandas ``Series``.

        The result is a column of the same kind with ``absent``, ``present`` or ``unknown``, and a null
        for a URI without a SURT.
        """
        return column(uris, self._lookup_list, self._lookup_arrow)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        return (Summary, self._arguments)

    def __repr__(self):
        return f"<waypost {self.kind} {self.path}>"

    def _repr_html_(self):
        from ._result import Result

        keys, size = self.size
        about = {name: value for name, value in self.about.items() if value is not None}
        return Result({"file": str(self.path), **about, "keys": keys, "bytes": size})._repr_html_()


def open(path, key_file=None):
    """Open a summary of any kind. ``key_file`` is the secret key of a keyed filter.

    It is a context manager, and can be pickled: the copy opens the same path.

    >>> import waypost
    >>> made = waypost.build_filter("small.cdxj", "small.filter", fpr=0.01)
    >>> with waypost.open("small.filter") as summary:
    ...     summary.kind, summary.about["dialect"], summary.lookup("http://nothing.example.net/")
    ('filter', 'ia', Answer(presence='absent', key=None, captures=None, urirs=None))
    """
    return Summary(path, key_file)
