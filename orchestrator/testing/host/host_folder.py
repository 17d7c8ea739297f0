"""The folder of a stand-in host, laid out as the vendor's toolkit: ``bin/atc``, ``bin/msame``,
``bin/python3``, ``python/acl`` …
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import Dict, Mapping, Optional

from ...base.errors import UsageError
from ...base.fast_dataclasses import dataclass
from .host_config import HOST_FILE, HostConfig

_SEARCH = """import sys
try:
    import goldwatch
except ImportError:
    sys.path += %r
"""
_MODULES = {
    "acl": "from goldwatch.testing.host.pyacl import fill_module\n_state = "
    "fill_module(sys.modules[__name__], %r)\n",
    "aclruntime": "__version__ = '0.0.2'\nsession_options = dict\n\n\n"
    "def InferenceSession(model, device, options):\n"
    "    import acl\n"
    "    from goldwatch.testing.host.ais_bench import InferenceSession\n\n"
    "    return InferenceSession(acl._state, model, device)\n",
    "ais_bench": '"""A stand-in for ais_bench."""\n__version__ = "0.0.2"\n',
}
_MAIN = (
    "import acl\nfrom goldwatch.testing.host.ais_bench import main\nsys.exit(main(acl._state))\n"
)
_ATC = "from goldwatch.testing.host.atc import main\nsys.exit(main())\n"
_MSAME = (
    "sys.path.insert(0, %r)\nimport acl\nfrom goldwatch.testing.host.msame import "
    "main\nsys.exit(main(acl._state))\n"
)
_ENVIRONMENT = """# Source this, as the toolkit's set_env.sh.
export ASCEND_TOOLKIT_HOME=%(home)s
export PATH=%(home)s/bin:$PATH
export PYTHONPATH=%(home)s/python${PYTHONPATH:+:$PYTHONPATH}
"""


@dataclass(frozen=True)
class Host:
    """A stand-in host.

    Attributes
    ----------
    folder
        Its folder: what ASCEND_TOOLKIT_HOME names.
    """

    folder: str

    def environment(self, environ: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
        """Return the variables that its set_env.sh sets, with the others of ``environ``."""
        environment = dict(os.environ if environ is None else environ)
        environment["ASCEND_TOOLKIT_HOME"] = self.folder
        environment["PATH"] = os.pathsep.join(
            [os.path.join(self.folder, "bin"), environment.get("PATH", os.defpath)]
        )
        python = [os.path.join(self.folder, "python"), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in python if entry)
        return environment

    @property
    def python(self) -> str:
        """The Python that has ais_bench and acl."""
        return os.path.join(self.folder, "bin", "python3")


def make_host(folder: str, config: Optional[HostConfig] = None) -> Host:
    """Make a host, or change what an earlier one is.

    Raises
    ------
    UsageError
        The folder holds something else.
    """
    folder = os.path.abspath(folder)
    if (
        os.path.isdir(folder)
        and os.listdir(folder)
        and not os.path.exists(os.path.join(folder, HOST_FILE))
    ):
        raise UsageError(
            "%s holds something else than a stand-in host" % folder, hint="take another folder"
        )
    search = _SEARCH % [entry for entry in sys.path if isinstance(entry, str) and entry]
    bin_, python = os.path.join(folder, "bin"), os.path.join(folder, "python")
    for place in (bin_, python):
        os.makedirs(place, exist_ok=True)
    (config or HostConfig()).write(folder)
    for name, text in _MODULES.items():
        os.makedirs(os.path.join(python, name), exist_ok=True)
        _write(
            os.path.join(python, name, "__init__.py"),
            search + (text % folder if "%r" in text else text),
        )
    _write(os.path.join(python, "ais_bench", "__main__.py"), search + _MAIN)
    for name, text in (("atc", _ATC), ("msame", _MSAME % python)):
        _write(os.path.join(bin_, name), "#!%s\n%s%s" % (sys.executable, search, text), 0o755)
    words = "PYTHONPATH=%s${PYTHONPATH:+:$PYTHONPATH} exec %s" % (
        shlex.quote(python),
        shlex.quote(sys.executable),
    )
    _write(os.path.join(bin_, "python3"), '#!/bin/sh\n%s "$@"\n' % words, 0o755)
    _write(os.path.join(folder, "set_env.sh"), _ENVIRONMENT % {"home": shlex.quote(folder)})
    return Host(folder)


def _write(path: str, text: str, mode: int = 0o644) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(path, mode)
