"""An unfinished line as a shell has it: its words, and the file whose arrays its last word may name."""

from __future__ import annotations

import os
import shlex

_CURSOR = "\0"  # which no line holds
_DATASET = "--dataset"


def split(line: str) -> tuple[list[str], str]:
    r"""The words behind the program's name, and the last one as far as it is typed: quotations may be open.

    >>> split("poolcli avg 'a "), split("poolcli avg a\\ b "), split("poolcli 'av")
    ((['avg'], 'a '), (['avg', 'a b'], ''), ([], 'av'))
    """
    lexer = shlex.shlex(line + _CURSOR, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words = list[str]()
    try:
        words.extend(lexer)
    except ValueError:  # the quotation that is still open
        words.append(lexer.token)
    return words[1:-1], words[-1].removesuffix(_CURSOR) if len(words) > 1 else ""


def file_asked(line: str) -> str:
    """The file whose arrays are asked for, as far as a line shows it to who knows no commands; '' where there is none.

    >>> file_asked("poolcli avg v.h5:/f"), file_asked("poolcli avg x.npy -k")
    ('v.h5', '')
    """
    words, unfinished = split(line)
    if words[-1:] == [_DATASET] or unfinished.startswith(f"{_DATASET}="):
        return next(filter(os.path.isfile, words[1:]), "")
    return unfinished.rpartition(":")[0]
