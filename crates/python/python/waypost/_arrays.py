"""SURTs and keys, of one URI or of a whole column.

The columns of Arrow, Polars and pandas are passed without copying, by Arrow's C data interface; the
result is of the same kind. The interpreter is not locked meanwhile, and all cores are used.
"""

from . import _waypost


def surt(uri, dialect="ia"):
    """Return the SURT of a URI, or the SURTs of many.

    ``uri`` is ``str`` or ``bytes``, a list or another iterable of them, a ``pyarrow`` array, a Polars
    or pandas ``Series``. ``dialect`` is ``ia`` (as Python's ``surt`` package), ``commoncrawl``,
    ``commoncrawl-legacy``, ``webrecorder`` or ``webrecorder-legacy``.

    >>> surt("http://www.example.com/A/../b/?b=2&a=1")
    'com,example)/b?a=1&b=2'
    >>> surt(["example.org", None])
    ['org,example)/', None]
    >>> import pyarrow
    >>> surt(pyarrow.array(["http://example.com/%41"])).to_pylist()
    ['com,example)/a']

    A single URI without a SURT raises ``ValueError``; in a column, it gives a null:

    >>> surt("http://example.com:99999/")
    Traceback (most recent call last):
    ...
    ValueError: the port is not a number from 0 to 65535: http://example.com:99999/
    """
    if isinstance(uri, (str, bytes)):
        return _waypost.surt(uri, dialect)
    return column(
        uri,
        lambda values: _waypost.surts(values, dialect),
        lambda values: _waypost.surts_of_arrow(values, dialect),
    )


def keys(uri, policies=None, dialect="ia"):
    """Return the keys of a URI or SURT under policies, as a dictionary; of all 23 by default.

    >>> keys("uk,co,bbc,news)/images/logo.png?width=80", ["HxP1", "DQry"])
    {'HxP1': 'uk,co,bbc,news)/images', 'DQry': 'uk,co,bbc)/1/2/1'}

    Many URIs give a list of dictionaries, with ``None`` for a URI without a SURT; a ``pyarrow`` array
    gives an array of structures, a Polars ``Series`` one of structures, and a pandas ``Series`` a
    ``DataFrame``:

    >>> keys(["http://a.example/", "http://a.example:99999/"], ["H1P0"])
    [{'H1P0': 'example)/'}, None]
    >>> import pandas
    >>> keys(pandas.Series(["http://a.example/b"]), ["H1P0", "HxP1"])
            H1P0          HxP1
    0  example)/  example,a)/b
    """
    names = [policies] if isinstance(policies, str) else list(policies or _waypost.policies())
    if isinstance(uri, (str, bytes)):
        return _waypost.keys(uri, names, dialect)
    return column(
        uri,
        lambda values: _waypost.keys_of_list(values, names, dialect),
        lambda values: _waypost.keys_of_arrow(values, names, dialect),
    )


def column(values, of_list, of_arrow):
    """Apply a function to a column, and return a column of the same kind."""
    module = type(values).__module__.partition(".")[0]
    if module == "pandas":
        import pandas
        import pyarrow

        array = pyarrow.array(values, type=pyarrow.large_string(), from_pandas=True)
        result = pyarrow.array(of_arrow(array))
        if pyarrow.types.is_struct(result.type):
            names = [field.name for field in result.type]
            return pyarrow.table(result.flatten(), names).to_pandas().set_axis(values.index)
        result = result.to_pandas().to_numpy(dtype=object, copy=True)
        return pandas.Series(result, index=values.index, name=values.name, dtype="str")
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        result = of_arrow(values)
        if module == "polars":
            import polars

            return polars.Series(values.name, result)
        import pyarrow

        return pyarrow.array(result)
    return of_list(values if isinstance(values, (list, tuple)) else list(values))
