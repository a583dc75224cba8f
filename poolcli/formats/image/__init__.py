"""Pictures: through Pillow, and through other libraries where Pillow would lose bits."""

from poolcli.formats.image.image import list_arrays, opened, write

__all__ = ["list_arrays", "opened", "write"]
