"""Hooks of MkDocs and mkdocstrings: notebooks as pages, commands as Typer documents them, functions as in `help`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from inspect import Parameter, getdoc, signature
from pathlib import Path
from typing import Any

import griffe
import typer
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

from poolcli.cli.program import COMMANDS, load_command
from poolcli.ops import OPERATORS, RECORDS

FUNCTIONS = [f"{name.replace('-', '_')}_pool" for name in OPERATORS]
EXAMPLES = re.compile(r"^Examples:\n((?:poolcli .*\n)+)", re.MULTILINE)
PLAIN_OPTION = re.compile(r"^(?:\$ )?poolcli .*$|(?<=[ (])--[a-z][a-z-]*(?=[^`\n]*$)", re.MULTILINE)  # or an example
INLINE_CODE = re.compile(r"<code>[^<\n]*</code>")
HYPHENATED = re.compile(r"[\w-]*-[\w-]+")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Adds every command to the reference of the command line, every operator to that of Python, and the CHANGELOG."""
    if page.file.src_uri == "changes.md":  # its links start at the top of the checkout
        return (Path(__file__).parent / "CHANGELOG.md").read_text("utf-8").replace("](docs/", "](")
    markdown = markdown.replace("```python\n>>>", "```pycon\n>>>")  # whose outputs are no Python
    if page.file.src_uri == "reference/command-line.md":
        return "\n".join((markdown, *map(_documented, COMMANDS)))
    if page.file.src_uri == "reference/python.md":
        for mark, names in (("functions", FUNCTIONS), ("records", [record.__name__ for record in RECORDS])):
            listed = "\n".join(f"::: poolcli.{name}" for name in names)
            markdown = markdown.replace(f"<!-- {mark} -->", listed)
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Breaks inline code between words and before the name of a test, not at hyphens; drops dashes before nothing."""
    html = re.sub(r"\s+(?=\)\s*–)|\s*–\s*<div[^>]*>\s*</div>\s*(?=</li>)", "", html)
    return INLINE_CODE.sub(
        lambda code: HYPHENATED.sub(r'<span class="word">\g<0></span>', code[0]).replace("::", "::<wbr>"), html
    )


def on_post_template(output_content: str, *, template_name: str, **_: Any) -> str:
    """Says what to do on the page for addresses that do not exist."""
    found = "</h1>\n  <p>There is no page at this address. The menu lists all pages; the search finds words.</p>"
    return output_content.replace("</h1>", found) if template_name == "404.html" else output_content


class Notebook(File):
    """A notebook, which is a page of the site."""

    def is_documentation_page(self) -> bool:
        """Whether MkDocs renders it."""
        return True


def on_files(files: Files, *, config: Any) -> Files:
    """Makes pages of the notebooks."""
    for file in [each for each in files if each.src_uri.endswith(".ipynb")]:
        files.remove(file)
        files.append(Notebook(file.src_uri, config.docs_dir, config.site_dir, config.use_directory_urls))
    return files


def on_page_read_source(*, page: Any, **_: Any) -> str | None:
    """The Markdown of a notebook; None for a page of Markdown, which MkDocs reads itself."""
    if not isinstance(page.file, Notebook):
        return None
    return "\n\n".join(part for cell in json.loads(page.file.content_string)["cells"] for part in _shown(cell))


def _shown(cell: dict[str, Any]) -> Iterator[str]:
    """A cell and its outputs, each in the richest form that it has."""
    source = "".join(cell["source"])
    yield f"```python\n{source}\n```" if cell["cell_type"] == "code" else source
    for output in cell.get("outputs", ()):
        forms = output.get("data", {"text/plain": output.get("text")})
        rich = forms.get("text/html") or forms.get("image/svg+xml")
        yield f"<div>{''.join(rich)}</div>" if rich else f"```text\n{''.join(forms['text/plain'])}\n```"


class Docstrings(griffe.Extension):
    """Operators as they are at run time, completed by the parameters that functions share."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """Replaces the text and the parameters that the source has."""
        home, _, name = func.path.rpartition(".")
        if home.startswith("poolcli.ops.") and name.endswith("_pool") and func.docstring:
            found = getattr(import_module(home), name)
            func.docstring.value = getdoc(found) or ""
            func.parameters = griffe.Parameters(*map(_parameter, signature(found).parameters.values()))


def _parameter(each: Parameter) -> griffe.Parameter:
    default = None if each.default is Parameter.empty else repr(each.default)
    kind = griffe.ParameterKind(each.kind.description)
    return griffe.Parameter(each.name, annotation=each.annotation, kind=kind, default=default)


def _documented(name: str) -> str:
    command = load_command(name)
    context = typer.Context(command, info_name=name)
    text = get_docs_for_click(obj=command, ctx=context, name=name, call_prefix="poolcli", indent=1)
    text = text.replace("][", r"]\[")  # of options of a layer, such as [,sS][,pP]: no link
    text = PLAIN_OPTION.sub(lambda found: f"`{found[0]}`" if found[0].startswith("--") else found[0], text)
    return EXAMPLES.sub(r"**Examples**:\n\n```sh\n\1```\n", text)
