"""Makes the sample files. Needs scikit-image, whose package holds the photograph (NASA, public domain).

Run from the project's root: python samples/make.py
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
from PIL import Image
from skimage.data import astronaut

HERE = Path(__file__).parent


def main() -> None:
    """Writes a photograph, a feature map and a volume beside this script."""
    photo = Image.fromarray(astronaut()).crop((96, 0, 352, 192))
    photo.save(HERE / "astronaut.png", optimize=True)
    np.save(HERE / "features.npy", features(np.asarray(photo.convert("L"), np.float32)))
    with h5py.File(HERE / "volume.h5", "w") as file:
        dataset = file.create_dataset("volume", data=ball(16, 32, 32), chunks=(1, 1, 8, 16, 16), compression="gzip")
        dataset.attrs["spacing_mm"] = (2.0, 1.0, 1.0)


def features(gray: np.ndarray) -> np.ndarray:
    """A small feature map, N=1 C=4 H=28 W=28: brightness, two edge filters and their strength."""
    small = gray[:168, :168].reshape(28, 6, 28, 6).mean((1, 3)) / 255
    dy, dx = np.gradient(small)
    return np.stack([small, dx, dy, np.hypot(dx, dy)])[None].astype(np.float32)


def ball(depth: int, height: int, width: int) -> np.ndarray:
    """A soft ball in a volume, N=1 C=1 D H W, 0 to 255."""
    d, h, w = np.ogrid[-1 : 1 : depth * 1j, -1 : 1 : height * 1j, -1 : 1 : width * 1j]
    return np.clip(255 * (1.2 - np.sqrt(d * d + h * h + w * w)), 0, 255).astype(np.uint8)[None, None]


if __name__ == "__main__":
    main()
