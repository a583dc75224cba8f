"""Text that is safe to print: names from files never reach the terminal as control characters or markup."""

from __future__ import annotations

LONGEST = 5_000  # characters, more than any path has


def printable(text: str) -> str:
    """`text` with control characters, bidirectional marks and undecodable bytes as escapes; cut if very long."""
    text = bounded(text)
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def bounded(text: str) -> str:
    """`text` as it is, or the start and the end of one that is very long."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters) ... {text[-half:]}"


def printable_lines(text: str) -> str:
    """As `printable`, but line breaks stay: for messages that show a line and a caret."""
    return "\n".join(printable(line) for line in text.split("\n"))


def number(value: object) -> str:
    """A number, a list `2,2` or a word as it is shown in reports."""
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def duration(seconds: float) -> str:
    """A time with three digits: `4.21 ms`, `1.30 s`."""
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"
    return f"{seconds * 1000:.3g} ms"


def _escape(c: str) -> str:
    code = ord(c)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as the operating system handed it over
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
