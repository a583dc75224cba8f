"""What the samples of a TIFF are, and the numbers that they become: on the full scale, black zero, alpha apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError
from poolcli.formats.image.modes import BANDS, NO_BANDS, mode_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

WHITE_IS_ZERO, GREY, RGB, PALETTE, CMYK, YCBCR, LAB, ICC_LAB = 0, 1, 2, 3, 5, 6, 8, 9
COLOURS = {WHITE_IS_ZERO: 1, GREY: 1, RGB: 3, CMYK: 4, LAB: 3, ICC_LAB: 3}  # channels of what is read
NAMES = {
    WHITE_IS_ZERO: "white is zero", GREY: "grey", RGB: "RGB", PALETTE: "palette", 4: "mask", CMYK: "CMYK",
    YCBCR: "YCbCr", LAB: "LAB", ICC_LAB: "LAB", 10: "ITU LAB", 32803: "colour filter array",
}  # fmt: skip
UNSPECIFIED, ASSOCIATED, UNASSOCIATED = 0, 1, 2  # what an extra sample is
DIVIDED = "associated alpha: colours are divided by it"
WIDEST = 32  # bits; products of two of them are exact
MODES_OF = {GREY: ("L", "LA", "I;16", "LA;16", "I", "F"), RGB: ("RGB", "RGBA", "RGB;16", "RGBA;16"), CMYK: ("CMYK",)}


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of a pixel: `photometric` says what the first of them are, `extra` what the others are.

    `bits` are those of a sample as it is stored, `dtype` is what it becomes; `mode` and `channels` are the picture's.
    """

    photometric: int
    extra: tuple[int, ...]
    bits: int
    dtype: str
    channels: int

    @property
    def is_unsigned(self) -> bool:
        """Whether a sample is one of the numbers from 0 to the largest."""
        return DTYPES[self.dtype].kind == "uint"

    @property
    def highest(self) -> int:
        """The largest number of the type."""
        return DTYPES[self.dtype].limits[1]

    @property
    def is_scaled(self) -> bool:
        """Whether a sample has fewer bits than its type, and is brought to the full scale."""
        return self.is_unsigned and self.bits < DTYPES[self.dtype].bits <= WIDEST

    @property
    def is_inverted(self) -> bool:
        """Whether white is zero, and can be made the largest number."""
        return self.photometric == WHITE_IS_ZERO and self.is_unsigned

    @property
    def is_divided(self) -> bool:
        """Whether colours are stored multiplied with alpha, and will be weighted with it again."""
        return self.extra == (ASSOCIATED,) and self.mode != BANDS

    @property
    def is_computed(self) -> bool:
        """Whether a sample becomes another number by a division."""
        return self.is_scaled or self.is_divided

    @property
    def mode(self) -> str:
        """The mode of such pixels, where the extra sample is alpha or there is none; else they are bands."""
        if self.photometric == WHITE_IS_ZERO and not self.is_inverted:
            return BANDS
        if self.extra and (len(self.extra) > 1 or self.extra[0] == UNSPECIFIED):
            return BANDS
        mode = mode_of((1, 1, self.channels), self.dtype, "HWC", "LAB" if self.photometric == LAB else None)
        return mode if mode in MODES_OF.get(max(self.photometric, GREY), ("LAB",)) else BANDS

    @property
    def kept(self) -> dict[str, Any]:
        """What another TIFF of bands must say of them."""
        return {"bands": (GREY if self.is_inverted else self.photometric, self.extra)} if self.mode == BANDS else {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report says of the change to the numbers."""
        found = []
        if self.is_scaled:
            found.append(f"{self.bits} bits a sample, scaled to {DTYPES[self.dtype].bits}")
        if self.photometric == WHITE_IS_ZERO:
            found.append("white is zero: inverted" if self.is_inverted else "white is zero, and stays so")
        if self.is_divided:
            found.append(DIVIDED)
        if self.mode == BANDS and any(kind != UNSPECIFIED for kind in self.extra):
            found.append("alpha is pooled as a band like others")
        return tuple(found)


def samples_of(path: str, page: Any) -> Samples:
    """What the samples of a page are; refuses those that have no meaning as numbers."""
    photometric = int(page.photometric)
    dtype = "none" if page.dtype is None else "uint8" if page.dtype.name == "bool" else page.dtype.name
    if photometric not in COLOURS or dtype not in DTYPES or dtype in NO_BANDS or page.imagedepth != 1:
        kind = NAMES.get(photometric, f"photometric {photometric}")
        raise FileError(
            f"{path}: is a TIFF of {dtype} ({kind}); grey, RGB, CMYK and LAB of integers and floats are read"
        )
    count = int(page.samplesperpixel) - COLOURS[photometric]
    said = tuple(int(kind) for kind in page.extrasamples)[:count]
    if not said and photometric == RGB and count == 1:
        said = (UNASSOCIATED,)  # as all other programs take it
    extra = said + (UNSPECIFIED,) * (count - len(said))
    return Samples(photometric, extra, int(page.bitspersample), dtype, int(page.samplesperpixel))


def decoded(page: Any, samples: Samples) -> Array:
    """The pixels of a page, as H, W or H, W, C."""
    separate, _, height, width, together = page.shaped
    stored = page.asarray().reshape(separate, height, width, together)
    pixels: Array = stored[0] if separate == 1 else stored[..., 0].transpose(1, 2, 0)
    pixels = pixels.astype(samples.dtype, copy=False)
    if samples.is_scaled:
        pixels = _quotients(pixels, samples.highest, (1 << samples.bits) - 1)
    colours = COLOURS[samples.photometric]
    if samples.is_inverted:
        pixels = pixels.copy()
        pixels[..., :colours] = samples.highest - pixels[..., :colours]
    if samples.photometric == LAB and samples.is_unsigned:
        pixels = with_signs_turned(pixels)
    if samples.is_divided:
        pixels = pixels.copy()
        pixels[..., :-1] = _quotients(pixels[..., :-1], samples.highest, pixels[..., -1:])
    return pixels if samples.channels > 1 else pixels[..., 0]


def with_signs_turned(pixels: Array) -> Array:
    """LAB, whose a and b TIFF stores as signed numbers, with them counted from the lowest; and the other way round."""
    turned = pixels.copy()
    turned[..., 1:3] ^= pixels.dtype.type(1 << (pixels.dtype.itemsize * 8 - 1))
    return turned


def _quotients(values: Array, factor: int, divisor: Any) -> Array:
    """`values * factor / divisor`, rounded, at most the largest of the type; 0 where the divisor is 0."""
    import numpy as np

    wide = np.asarray(divisor, np.uint64)
    found = (values.astype(np.uint64) * np.uint64(factor) + wide // np.uint64(2)) // np.maximum(wide, np.uint64(1))
    found = np.where(wide == 0, np.uint64(0), np.minimum(found, np.uint64(factor)))
    return found.astype(values.dtype)
