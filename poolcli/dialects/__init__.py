"""What each framework does where the frameworks differ by rule."""

from poolcli.dialects.table import DIALECTS, Dialect, IndexBase, dialect_of

__all__ = ["DIALECTS", "Dialect", "IndexBase", "dialect_of"]
