"""Pictures: through Pillow, and through other libraries where Pillow would lose bits."""

from poolcli.formats.image.image import opened, write

__all__ = ["opened", "write"]
