"""Pictures: through Pillow, and through other libraries where Pillow would lose bits."""

from poolcli.formats.image.image import open_array, write

__all__ = ["open_array", "write"]
