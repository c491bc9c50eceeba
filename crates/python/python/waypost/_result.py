"""What a command found, as a dictionary that notebooks show as a table."""

import html


class Result(dict):
    """The result of a command.

    ``ok`` is ``False`` where the command exits with 1, such as for an index with bad lines.
    ``messages`` are its notes and warnings.

    >>> import waypost
    >>> result = waypost.check("small.cdxj")
    >>> result.ok, result["sorted"], result.messages
    (True, True, [])
    >>> result._repr_html_().startswith("<table")
    True
    """

    def __init__(self, values=(), ok=True, messages=()):
        super().__init__(values)
        self.ok = ok
        self.messages = list(messages)

    def __reduce__(self):
        return (Result, (dict(self), self.ok, self.messages))

    def _repr_html_(self):
        notes = "".join(f"<p>{html.escape(message)}</p>" for message in self.messages)
        return _table(self) + notes


def _table(value):
    if isinstance(value, dict):
        rows = (
            f"<tr><th style='text-align:left'>{html.escape(str(name))}</th><td>{_table(inner)}</td></tr>"
            for name, inner in value.items()
        )
        return f"<table>{''.join(rows)}</table>"
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        columns = list(value[0])
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{_table(row.get(name))}</td>" for name in columns) + "</tr>"
            for row in value
        )
        return f"<table><tr>{head}</tr>{body}</table>"
    if isinstance(value, list):
        return ", ".join(_table(one) for one in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return html.escape(str(value))
