"""Versions that are known not to go together: what happens, and what to do.

Each was met or measured: protobuf by scripts/check_protobuf_versions, the others on the Pythons
that they name.
"""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Tuple

from .installed import number

PROBLEM, WARNING, NOTE = "problem", "warning", "note"


class Finding(NamedTuple):
    """Something to know.

    Attributes
    ----------
    severity
        ``problem`` (no comparison works), ``warning`` (something breaks or gets slow) or ``note``.
    rule
        Its name for programs, which stays.
    message
        What it is and what comes of it.
    fix
        What to do.
    """

    severity: str
    rule: str
    message: str
    fix: str


class Setting(NamedTuple):
    """A Python's version, the versions of what is installed in it by name, and the processor's
    features.
    """

    python: Tuple[int, ...]
    packages: Dict[str, str]
    features: Tuple[str, ...]

    def has(self, name: str) -> bool:
        """Tell whether a package is there."""
        return name in self.packages

    def version(self, name: str) -> Tuple[int, ...]:
        """Return the numbers of a package's version, none when it is not there."""
        return number(self.packages.get(name, ""))

    def between(self, name: str, first: Tuple[int, ...], end: Tuple[int, ...]) -> bool:
        """Tell whether a package is there in a version from ``first`` on and below ``end``."""
        return self.has(name) and first <= self.version(name) < end


class _Rule(NamedTuple):
    rule: str
    holds: Callable[[Setting], bool]
    message: str
    fix: str


_NO_END = (1 << 30,)
_RULES = (
    _Rule(
        "protobuf-4-23",
        lambda here: here.between("protobuf", (4, 23), (4, 25)),
        "protobuf %(protobuf)s crashes when another tool's copy of the same messages is "
        "imported after goldwatch's",
        "pip install 'protobuf!=4.23.*,!=4.24.*'",
    ),
    _Rule(
        "onnxruntime-numpy",
        lambda here: here.between("onnxruntime", (0,), (1, 19))
        and here.between("numpy", (2,), _NO_END),
        "onnxruntime %(onnxruntime)s was built for numpy 1 and cannot be imported with numpy "
        "%(numpy)s",
        "pip install 'onnxruntime>=1.19', or 'numpy<2' where there is none (glibc older than 2.27)",
    ),
    _Rule(
        "onnxruntime-float16",
        lambda here: here.between("onnxruntime", (0,), (1, 15)),
        "onnxruntime %(onnxruntime)s ends with a segmentation fault on some float16 convolutions",
        "for float16 ONNX models, a Python of 3.8 or later with onnxruntime 1.19 or later",
    ),
    _Rule(
        "click-dask",
        lambda here: here.python < (3, 8)
        and here.has("distributed")
        and here.between("click", (8, 1), _NO_END),
        "dask's scheduler and workers of Python 3.7 end at their start with click %(click)s",
        "pip install 'click<8.1'",
    ),
    _Rule(
        "opencv-5",
        lambda here: any(
            here.between(name, (5,), _NO_END)
            for name in ("opencv-python-headless", "opencv-python")
        ),
        "OpenCV 5 cannot read Caffe models",
        "pip install 'opencv-python-headless>=4.5,<5'",
    ),
    _Rule(
        "tensorflow-protobuf",
        lambda here: here.between("tensorflow", (1,), (2,))
        and here.between("protobuf", (3, 21), _NO_END),
        "TensorFlow %(tensorflow)s cannot be imported with protobuf %(protobuf)s",
        "pip install 'protobuf>=3.20.2,<3.21' in that Python",
    ),
    _Rule(
        "tensorflow-avx",
        lambda here: here.has("tensorflow")
        and "sse4_2" in here.features
        and "avx" not in here.features,
        "TensorFlow %(tensorflow)s needs a processor with AVX, which this one has not: it "
        "ends with an illegal instruction",
        "make the golden data on another machine",
    ),
)


def known_bad(setting: Setting, where: str = "") -> List[Finding]:
    """Return a warning for each combination in a Python that is known not to work.

    Parameters
    ----------
    where
        The Python in words, put behind the message; empty for the running one.
    """
    place = " (%s)" % where if where else ""
    return [
        Finding(WARNING, one.rule, one.message % setting.packages + place, one.fix)
        for one in _RULES
        if one.holds(setting)
    ]
