"""The compiled kernel: optional, so that an installation without a compiler works, with numpy
alone. All else is in pyproject.toml.
"""

import os
import sysconfig

from setuptools import Extension, setup

FOLDER = "orchestrator/metrics/compiled/"
# A free-threaded Python has no limited API.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")

kernel = Extension(
    "goldwatch.metrics.compiled._kernel",
    [FOLDER + "kernel.c"],
    depends=[
        FOLDER + name
        for name in ("arrays.h", "walk.h", "lanes.h", "convert.h", "passes.h", "forget.h")
    ],
    # No fused multiply-add: all processors then give the same bits.
    extra_compile_args=["-std=gnu99", "-O3", "-ffp-contract=off"],
    define_macros=[("Py_LIMITED_API", "0x03070000")] if LIMITED else [],
    py_limited_api=LIMITED,
    optional=True,
)

# A wheel for every processor has numpy alone.
PURE = os.environ.get("GOLDWATCH_BUILD") == "pure"

setup(
    ext_modules=[] if PURE else [kernel],
    options={"bdist_wheel": {"py_limited_api": "cp37"}} if LIMITED and not PURE else {},
)
