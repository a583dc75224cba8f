"""The `identify` command: which pooling turns one array into another."""

from __future__ import annotations

import sys
from functools import partial

from poolcli.cli.reading import as_tensor, whole_options
from poolcli.cli.requests.identify import IdentifyRequest
from poolcli.errors import FileError, RequestError
from poolcli.explain.identify.search import identify
from poolcli.formats import ReadOptions, Source, Tensor, parse_source, read
from poolcli.formats.isolated import in_subprocess_if_fragile


def identify_command(request: IdentifyRequest) -> int:
    """Prints the poolings that turn `x` into `y`, best first; returns 1 where none fits and the nearest is shown."""
    sources = [parse_source(text) for text in (request.x, request.y)]
    options = whole_options(request, sources)
    x, y = (_array(source, options) for source in sources)
    if (x.header.mode is None) != (y.header.mode is None):  # a picture, and an array made of one
        x, y = as_tensor(x), as_tensor(y)
    layout = request.layout or (x.header.layout if x.header.layout == y.header.layout else None)
    found = identify(x.array, y.array, op=request.pooling, layout=layout, **request.attributes)
    if request.json:
        from poolcli.report.as_json import to_json
        from poolcli.report.identify import candidates_document

        print(to_json(candidates_document(x, y, found)))
    elif not request.quiet:
        from poolcli.report.console import show
        from poolcli.report.identify import candidates_view

        show(candidates_view(found), sys.stdout)
    return 0 if found and found[0].fits else 1


def _array(source: Source, options: ReadOptions) -> Tensor:
    """The whole array of a file; one that cannot be read is nothing to compare (exit 2)."""
    try:
        return in_subprocess_if_fragile(source.path, partial(read, source, options))
    except FileError as error:
        raise RequestError(error.message) from error
