"""Element types: one interned `DType` per name, known by its short and its long spelling.

The IR has its own element types because NumPy has no bfloat16 and because reading, checking and
transforming a file must not cost the import of NumPy.
"""

from __future__ import annotations

from typing import Any

from jaxprtool.ir.frozen import Frozen, amend

__all__ = ["DType", "dtype_of", "find_dtype", "holds_all"]

_BY_NAME: dict[str, DType] = {}


class DType(Frozen):
    """An element type.

    Attributes:
      name: the long name, as NumPy and ml_dtypes spell it (`float32`).
      short: the spelling in a jaxpr (`f32`).
      kind: `b` boolean, `i` signed, `u` unsigned, `f` float, `c` complex, `k` PRNG key,
        `0` float0 (the type of tangents of integers), `?` anything else.
      bits: width of one element in bits (0 for float0, 0 when unknown).
    """

    __slots__ = ("bits", "kind", "name", "short")
    bits: int
    kind: str
    name: str
    short: str

    def __init__(self, name: str, short: str, kind: str, bits: int):
        amend(self, name=name, short=short, kind=kind, bits=bits)
        _BY_NAME[name] = _BY_NAME[short] = self

    def __repr__(self) -> str:
        return self.short

    def __reduce__(self):
        return find_dtype, (self.name,)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        found = dtype_of(other)
        return NotImplemented if found is None else self is found

    __hash__ = object.__hash__

    @property
    def is_inexact(self) -> bool:
        """Whether it is a floating or complex type. These types have tangents."""
        return self.kind in "fc"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer (not boolean)."""
        return self.kind in "iu"

    @property
    def has_signed_zero(self) -> bool:
        """Whether it is a float type with a sign bit and a -0.

        False for float8_e8m0fnu, and for the types whose bits of -0 are NaN.
        """
        return self.kind == "f" and self.has_zero and not self.has_nan_for_negative_zero

    @property
    def has_zero(self) -> bool:
        """Whether the type can represent 0. float8_e8m0fnu, whose values are powers of two, cannot;
        nor has it negative numbers.
        """
        return self.name != "float8_e8m0fnu"

    @property
    def has_nan_for_negative_zero(self) -> bool:
        """Whether the only NaN of the type has the bit pattern of -0 in other float types."""
        return self.name in _FNUZ

    def holds(self, value: int) -> bool:
        """Whether an integer lies in the range of an integer type."""
        if self.kind == "u":
            return 0 <= value < 1 << self.bits
        return -1 << (self.bits - 1) <= value < 1 << (self.bits - 1)

    @property
    def itemsize(self) -> int:
        """Bytes an element takes in an array of its own (sub-byte types take one)."""
        return (self.bits + 7) // 8

    @property
    def real(self) -> DType:
        """The type of the real part: f32 for c64, f64 for c128, else itself."""
        return find_dtype(f"f{self.bits // 2}") if self.kind == "c" else self  # type: ignore[return-value]


_FNUZ = frozenset({"float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz"})
BOOL = DType("bool", "bool", "b", 8)
for _bits in (2, 4, 8, 16, 32, 64):
    DType(f"int{_bits}", f"i{_bits}", "i", _bits)
    DType(f"uint{_bits}", f"u{_bits}", "u", _bits)
for _bits in (16, 32, 64):
    DType(f"float{_bits}", f"f{_bits}", "f", _bits)
DType("bfloat16", "bf16", "f", 16)
DType("complex64", "c64", "c", 64)
DType("complex128", "c128", "c", 128)
for _name, _bits in (
    ("8_e3m4", 8),
    ("8_e4m3", 8),
    ("8_e4m3b11fnuz", 8),
    ("8_e4m3fn", 8),
    ("8_e4m3fnuz", 8),
    ("8_e5m2", 8),
    ("8_e5m2fnuz", 8),
    ("8_e8m0fnu", 8),
    ("6_e2m3fn", 6),
    ("6_e3m2fn", 6),
    ("4_e2m1fn", 4),
):
    DType("float" + _name, "f" + _name, "f", _bits)
# Kinds of PRNG keys, as types spell them: JAX's name of the generator, and how many words a key has.
KEYS = {
    "fry": ("threefry2x32", 2),
    "rbg": ("rbg", 4),
    "urbg": ("unsafe_rbg", 4),
    "fry4": ("threefry4x32", 4),
    "phx2": ("philox2x32", 1),
    "phx4": ("philox4x32", 2),
}
for _name, (_generator, _words) in KEYS.items():
    DType(f"key<{_name}>", f"key<{_name}>", "k", 32 * _words)
    if _name != "urbg":  # JAX's name of that generator is a type of its own
        _BY_NAME[f"key<{_generator}>"] = _BY_NAME[f"key<{_name}>"]
DType("key<unsafe_rbg>", "key<unsafe_rbg>", "k", 128)
FLOAT0 = DType("float0", "float0", "0", 0)

INT32, INT64 = _BY_NAME["i32"], _BY_NAME["i64"]
INT8 = _BY_NAME["i8"]
UINT8, UINT32, UINT64 = _BY_NAME["u8"], _BY_NAME["u32"], _BY_NAME["u64"]
FLOAT16, BFLOAT16 = _BY_NAME["f16"], _BY_NAME["bf16"]
FLOAT32, FLOAT64 = _BY_NAME["f32"], _BY_NAME["f64"]
COMPLEX64, COMPLEX128 = _BY_NAME["c64"], _BY_NAME["c128"]

_PYTHON = {bool: BOOL, int: INT64, float: FLOAT64, complex: COMPLEX128}


def find_dtype(name: str) -> DType | None:
    """The element type with this short or long name, or None."""
    return _BY_NAME.get(name)


# element types of kernels that are not numbers
SEMAPHORES = ("dma_sem", "semaphore", "barrier_semaphore")


def custom_dtype(name: str) -> DType:
    """Return the element type of a name that only a printed program knows (`dma_sem`, or a type
    that a user defined); interned by name.
    """
    return _BY_NAME.get(name) or DType(name, name, "?", 0)


def dtype_of(x: Any) -> DType | None:
    """Return the element type of a name, of a NumPy or ml_dtypes dtype, or of a Python scalar type;
    None for anything else.
    """
    if isinstance(x, DType):
        return x
    if isinstance(x, str):
        return _BY_NAME.get(x)
    if isinstance(x, type):
        return _PYTHON.get(x) or _BY_NAME.get(getattr(x, "__name__", ""))
    name = getattr(x, "name", None)
    if name == "void" and getattr(x, "names", None) == ("float0",):
        return FLOAT0
    return _BY_NAME.get(name) if isinstance(name, str) else None


# Bits of the significand and of the exponent.
_FLOATS = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}


def holds_all(narrow: DType, wide: DType) -> bool:
    """Whether `wide` represents every number of `narrow` exactly."""
    if narrow.short in _FLOATS and wide.short in _FLOATS:
        pairs = zip(_FLOATS[narrow.short], _FLOATS[wide.short], strict=True)
        return all(x <= y for x, y in pairs)
    if narrow.kind in "iu" and wide.short in _FLOATS:
        return narrow.bits - (narrow.kind == "i") <= _FLOATS[wide.short][0] + 1
    if narrow.kind == "b":
        return wide.kind in "iuf"
    if narrow.kind == wide.kind and narrow.kind in "iu":
        return narrow.bits <= wide.bits
    return narrow.kind == "u" and wide.kind == "i" and narrow.bits < wide.bits
