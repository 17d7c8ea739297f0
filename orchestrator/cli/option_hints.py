"""Options that a run lacked, or had and should not: told behind its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Tuple

from ..diagnosis.run_sentence import NO_MODEL
from ..errors import EXIT_PASS
from ..run.mismatch_warnings import FEW_LAYERS, QUANTISED, SUPERFLUOUS, TWO_BUILDS

if TYPE_CHECKING:
    from ..run.result import RunResult

_GIVE: Tuple[Tuple[str, str], ...] = (
    (NO_MODEL,
     "give -f MODEL.json (atc --mode=1 --om=MODEL.om --json=MODEL.json makes it; of a "
         "training GE's ge_proto_*_Build.txt): it tells "
     "which golden tensor belongs to which fused operator"),
    (QUANTISED, "give --quant-json JSON, the json that the quantisation tool wrote beside the "
        "quantised "
        "model"),
    (SUPERFLUOUS, "leave --quant-json out"),
    (TWO_BUILDS, "give -f MODEL.json of TARGET's build and --unfused-om MODEL.json of GOLDEN's"),
    (FEW_LAYERS, "give --acl acl.json where it chose the layers to be dumped: the others are "
        "then not "
        "asked for"),
)  # fmt: skip


def lacking_options(result: RunResult) -> List[str]:
    """Return a sentence for each option that a run's warnings ask for."""
    if result.exit_code == EXIT_PASS:
        return []
    return [
        give for about, give in _GIVE if any(text.startswith(about) for text in result.left_out)
    ]
