"""Every test of the metrics runs with numpy, and with the compiled kernel where there is one."""

from __future__ import annotations

import pytest
from kernels import KERNELS, using


@pytest.fixture(scope="module", autouse=True, params=KERNELS[:2])
def kernel(request):
    with using(request.param) as found:
        yield found
