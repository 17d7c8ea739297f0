"""Which tensors of a net are saved, under which names, and why the others are not."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Dict, List, Sequence, Tuple

from ...base.errors import UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ...netfiles.caffe_net import Net

NO_TOP = "the layer has no top"
NOT_SELECTED = "not among the layers that were chosen"


@dataclass(frozen=True)
class TensorToSave:
    """One top of one layer, or a net input.

    Attributes
    ----------
    number, top_index
        The layer's number in :attr:`Net.layers` and the top's index; -1 and the input's number for
        an ``input`` field.
    name, output_index
        What it is saved as.
    layer, top, type
        The layer's own name (empty for ``input`` fields and unnamed layers), the blob's name, and
        the layer's type.
    """

    number: int
    top_index: int
    name: str
    output_index: int
    layer: str
    top: str
    type: str

    @property
    def identity(self) -> str:
        """What tells it apart from a layer of the same name."""
        return "%d" % self.number if self.number >= 0 else "input %d" % self.top_index

    @property
    def title(self) -> str:
        """``name:index`` for lists of what was skipped."""
        return "%s:%d" % (self.name, self.output_index)

    @property
    def fields(self) -> Dict[str, str]:
        """Its further fields in the manifest."""
        return {"layer": self.layer, "top": self.top, "type": self.type}


@dataclass
class TensorsToSave:
    """What is saved, ``(tensor, reason)`` of everything that is not, and ``(number, name)`` of the
    chosen layers without a written top.
    """

    saved: List[TensorToSave]
    skipped: List[Tuple[str, str]]
    topless: List[Tuple[int, str]]


def targets_of(net: Net, globs: Sequence[str] = ()) -> TensorsToSave:
    """Return the tensors of a net in the order in which Caffe makes them.

    Parameters
    ----------
    globs
        Patterns of layer names; none means all.

    Raises
    ------
    UsageError
        A pattern matches no layer.
    """
    done = TensorsToSave([], [], [])
    matched = {glob: False for glob in globs}
    for number, blob in enumerate(net.inputs):
        _add(done, TensorToSave(-1, number, blob, 0, "", blob, "Input"), matched)
    for number, layer in enumerate(net.layers):
        name = layer.name or (layer.tops[0].text if layer.tops else "")
        if not layer.tops and _selected(name, matched):
            done.topless.append((number, name or layer.title))
        elif not layer.tops:
            done.skipped.append((name or layer.title, NOT_SELECTED))
        for index, top in enumerate(layer.tops):
            _add(
                done,
                TensorToSave(number, index, name, index, layer.name, top.text, layer.type),
                matched,
            )
    reason = "not part of phase %s" % net.state.phase
    for layer in net.removed:
        name = layer.name or (layer.tops[0].text if layer.tops else layer.title)
        done.skipped += [("%s:%d" % (name, index), reason) for index in range(len(layer.tops))] or [
            (name, reason)
        ]
    unmatched = [glob for glob, hit in matched.items() if not hit]
    if unmatched:
        names = ", ".join(printable(layer.name) for layer in net.layers[:12] if layer.name)
        raise UsageError(
            "no layer matches %s" % printable(unmatched[0]),
            hint="the net's layers are: %s …" % names,
        )
    return done


def _selected(name: str, matched: Dict[str, bool]) -> bool:
    if not matched:
        return True
    hits = [glob for glob in matched if name == glob or fnmatchcase(name, glob)]
    for glob in hits:
        matched[glob] = True
    return bool(hits)


def _add(done: TensorsToSave, target: TensorToSave, matched: Dict[str, bool]) -> None:
    if not target.name:
        done.skipped.append(
            ("%s:%d" % (target.layer, target.top_index), "neither the layer nor its top has a name")
        )
    elif _selected(target.name, matched):
        done.saved.append(target)
    else:
        done.skipped.append((target.title, NOT_SELECTED))


def split_globs(net: Net, options: Sequence[str]) -> List[str]:
    """Return the patterns of layers; a comma separates patterns unless the whole is a layer's
    name.
    """
    names = {layer.name for layer in net.layers}
    out: List[str] = []
    for option in options:
        out += (
            [option]
            if option in names
            else [part.strip() for part in option.split(",") if part.strip()]
        )
    return out
