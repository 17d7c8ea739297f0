"""Why no dump came from a program that ended well: what its configuration expects, held against
what can be seen.
"""

from __future__ import annotations

import os
from typing import List, Sequence

from .prepare_dump_configuration import NPU, Prepared


def why_nothing(prepared: Prepared, words: Sequence[str], log: str) -> str:
    """Return what to look at, as a hint.

    Parameters
    ----------
    prepared
        The configuration that the program ran with.
    words
        The program and its arguments.
    log
        Where its output is kept.
    """
    questions = _of_script(prepared) if prepared.kind == NPU else _of_acl(prepared, words)
    return "; ".join(questions + ["what the program said is in %s" % log])


def _of_script(prepared: Prepared) -> List[str]:
    questions = [
        "does the program read its settings from %s, and do they reach its session?" % prepared.file
    ]
    if prepared.plan.step:
        questions.append("does it reach step %s?" % prepared.plan.step)
    return questions


def _of_acl(prepared: Prepared, words: Sequence[str]) -> List[str]:
    file = prepared.written or os.path.abspath(prepared.file)
    name = os.path.basename(file)
    named = [word for word in words[1:] if os.path.basename(word) == name]
    observation = "no argument names it" if not named else "an argument names %s" % named[0]
    questions = ["does the program pass %s to aclInit()? (%s)" % (file, observation)]
    plan = prepared.plan
    models = [model.name for model in plan.models or () if model.name]
    if models:
        text = (
            "is the model called %s, as its .om file or the outermost name in its json?"
            % " or ".join(repr(name) for name in models[:3])
        )
        questions.append(text)
    if plan.op_switch:
        questions.append(
            "does it call aclmdlInitDump() and aclmdlSetDump()? ops called one by one are "
            "sure to be dumped by these alone"
        )
    if plan.step:
        questions.append("does it reach step %s?" % plan.step)
    if plan.debug:
        questions.append("did anything overflow? only then something is dumped")
    return questions
