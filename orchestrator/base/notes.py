"""What a run says beside its rows and its verdict: one table of all notes and warnings, by code."""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Sequence, Tuple

ORIGINAL_CHANGED = "original-changed"


class Said(NamedTuple):
    """A kind of note.

    Attributes
    ----------
    condition
        When it is said.
    sentence
        Its text; the values of one note go into it by ``%``.
    next
        The option or the command that mends it; empty where none does.
    warns
        Whether it is printed with ``--quiet`` too, and begins with ``warning`` there.
    """

    condition: str
    sentence: str
    next: str = ""
    warns: bool = False


class Note(str):
    """A sentence of :data:`NOTES`, perhaps with the side or file that it is about before it.

    Programs recognise it by its code, never by its words.
    """

    code: str

    def __new__(cls, code: str, text: str) -> Note:
        """Make the note of a code with this text."""
        made = super().__new__(cls, text)
        made.code = code
        return made

    def __reduce__(self) -> Tuple[Any, ...]:
        return Note, (self.code, str(self))

    @property
    def warns(self) -> bool:
        """Whether it is a warning."""
        return NOTES[self.code].warns

    @property
    def next(self) -> str:
        """What mends it; may be empty."""
        return NOTES[self.code].next

    def behind(self, prefix: str) -> Note:
        """Return it with what it is about before it."""
        return Note(self.code, prefix + self)

    def document(self) -> Dict[str, str]:
        """Return its entry in result.json."""
        more = {"next": self.next} if self.next else {}
        return {"code": self.code, "sentence": str(self), **more}


def note(code: str, *values: Any) -> Note:
    """Return the note of a code, with its values."""
    return Note(code, NOTES[code].sentence % values)


def told(document: Mapping[str, str]) -> str:
    """Return what a report shows of a note: its sentence, and what mends it."""
    return "; next: ".join(filter(None, (document["sentence"], document.get("next"))))


def stored_notes(documents: Sequence[Dict[str, str]]) -> Tuple[Note, ...]:
    """Return the notes that :meth:`Note.document` made documents of."""
    return tuple(Note(entry["code"], entry["sentence"]) for entry in documents)


NOT_JUDGED_BY_NAMES = "not-judged-by-names"
_GIVE_MODEL = (
    "give -f MODEL.json (atc --mode=1 --om=MODEL.om --json=MODEL.json makes it; of a training GE's "
    "ge_proto_*_Build.txt): it tells which golden tensor belongs to which fused operator"
)
_WITHOUT_ORIGINAL = "operators are not computed again by their original model: %s"

NOTES: Dict[str, Said] = {
    # The model.
    "not-utf-8": Said(
        "the model's json holds bytes that are no UTF-8",
        "not UTF-8: byte 0x%02x at offset %d; such bytes are kept as \\xNN",
    ),
    "odd-model": Said("a field of the model's file is not as GE writes it", "%s: %s"),
    "more-oddities": Said("there are over a hundred such fields", "%d more notes like these"),
    "repeated-names": Said(
        "ops of the model have one name",
        "%d op names occur more than once (%s); a dump of such a name belongs to the first op of "
        "its type",
    ),
    "no-model-file": Said(
        "a file of the folder given with -f is no model", "no model, passed over: %s"
    ),
    "same-model": Said(
        "two files of the folder given with -f are of one model",
        "%s: left out, %s is of %s too",
    ),
    # What was found in TARGET and GOLDEN.
    "unlisted-folder": Said("a folder cannot be read", "%s cannot be listed: %s"),
    "unusable-mapping": Said(
        "a mapping.csv is not as the device writes it", "%s cannot be used: %s"
    ),
    "unreadable-mapping": Said("a mapping.csv cannot be read", "%s cannot be read: %s"),
    "no-mapping": Said(
        "files have hash names without a mapping.csv beside them",
        "%s: %d files have hash names, and there is no %s",
    ),
    "not-in-mapping": Said("a mapping.csv lacks the hash name of a file", "%s is not in %s"),
    "no-dump-name": Said(
        "a mapping.csv gives a file a name that no dump has",
        "%s: %s calls it %s, which is no dump name",
    ),
    "incomplete-names": Said(
        "npy files lack parts of a golden file's name",
        "%s an output index or a time in the name (%s): goldwatch golden tf rename adds it",
        warns=True,
    ),
    "misnamed-golden": Said(
        "npy files have other letters than a golden file's name may have",
        "%s the name of golden data but for letters outside A-Z a-z 0-9 _ - in the op's name: "
        "rename %s to %s%s",
        warns=True,
    ),
    "golden-among-dumps": Said(
        "golden files lie among the dumps of TARGET",
        "%s: %d golden files (npy, pb, quant) lie among the dumps and are no dumps",
    ),
    "passed-over": Said("a file or folder of TARGET is not looked at", "left out: %s", warns=True),
    "other-time": Said(
        "dumps have another time than the one that counts (--time)",
        "left out %s: time %s of device %s %s",
        warns=True,
    ),
    "time-came": Said(
        "dumps of another time came during a watch",
        "left out time %s of device %s, which came meanwhile: it is not %s",
        warns=True,
    ),
    "folders": Said("always: which folders were taken", "%s"),
    "no-dumps-in-folder": Said("a folder of TARGET holds no dump", "%s: no dump file%s"),
    "golden-size": Said("always", "golden: %d tensors of %d ops"),
    "golden-tokens": Said(
        "GOLDEN is an FX dump of TorchAir",
        "GOLDEN is an FX dump of TorchAir: each step is compared with the token of its number (%s)",
    ),
    "golden-steps": Said(
        "the folders of GOLDEN are numbers",
        "GOLDEN's folders are numbers: each holds the golden data of that step (%s)",
    ),
    "golden-collision": Said(
        "several golden files are of one tensor",
        "golden files collide: %s all stand for %s:%d",
    ),
    "files-collide": Said(
        "several files of a quantised net are of one tensor", "%s files collide: %s"
    ),
    "golden-is-device": Said(
        "GOLDEN holds device dumps",
        "GOLDEN holds device dumps, no golden data: the two dumps are compared by op name, as "
        "stored on the device",
    ),
    "golden-places": Said(
        "GOLDEN holds dumps of several devices, models or steps",
        "GOLDEN holds several devices, models or steps: each is compared with TARGET's of the same "
        "name",
    ),
    "paired-by-name": Said(
        "no model is given",
        "no model is given: outputs are paired with golden files of the op's own name, inputs are "
        "not compared",
    ),
    "statistics": Said(
        "TARGET holds statistics in place of tensors",
        "TARGET holds statistics (dump_data is stats): rows are judged by max, min, mean and, "
        "where it was dumped, l2 norm; an error that leaves these as they are is not seen",
    ),
    "network-outputs": Said(
        "TARGET holds the outputs of a network",
        "TARGET holds the outputs of a network, no dumps: nothing is told about single ops",
    ),
    "last-outputs": Said(
        "several folders of TARGET hold outputs", "took %s, the last of %s with outputs"
    ),
    "assumed-output": Said("an output's type, shape or layout was assumed", "%s"),
    "nodes-without-file": Said(
        "GOLDEN has nodes of which TARGET holds no file of torch.save",
        "%s of GOLDEN without a file in TARGET: %s",
    ),
    "torch-files": Said(
        "TARGET holds files of torch.save, of TorchAir's modes without GE",
        "TARGET holds files of torch.save, one for each node and call, not a device's dumps: "
        "outputs only are compared",
    ),
    "quantised-files": Said(
        "TARGET holds the files of a quantised net",
        "TARGET holds the files of a quantised net, not a device's dumps: outputs only are "
        "compared",
    ),
    "overflow-record": Said("an overflow record cannot be read", "overflow record %s: %s"),
    "overflows": Said("the device wrote overflow records", "overflow records name %s"),
    "without-original": Said("the original model cannot be used", _WITHOUT_ORIGINAL),
    ORIGINAL_CHANGED: Said(
        "the file that golden data were made of is another one now",
        "%s has changed since golden data were made of it: they are of the model of then, and "
        "operators are not computed again by it",
        "make golden data again, or give the file of then with --original",
        warns=True,
    ),
    "output-of-no-op": Said(
        "what makes an output of the original model is in no op of the om",
        "the original model's output %s is made by %s, and no op of the om is: what it computes is "
        "compared with nothing",
        "an om that was made with --out_nodes ends earlier; another one has lost it: compare the "
        "end of its json with that of the original model",
        warns=True,
    ),
    "original-of-another-model": Said(
        "--original has no name of the device's model",
        "--original %s is of another model: none of the %d original names in %s is one of its "
        "nodes; operators are computed again without it",
        "give the model that the om was made from",
        warns=True,
    ),
    "exact-of-golden": Said(
        "--exact beside golden data of a framework",
        "--exact compares bytes, and golden data of a framework are stored in another type and "
        "layout than a device's",
        "leave --exact out: values are compared",
        warns=True,
    ),
    "one-folder": Said(
        "TARGET and GOLDEN are one folder of dumps",
        "TARGET and GOLDEN are one folder, %s: each tensor is compared with itself",
        "name the other dump",
        warns=True,
    ),
    "original-without-model": Said(
        "--original without a model of the device",
        "--original %s is not used: without the om's json it is not known which of its nodes an "
        "operator of the device was made from",
        "-f MODEL.json",
        warns=True,
    ),
    "replayed": Said("always of a replay: what ran the model", "%s"),
    # What has no counterpart.
    "left-out-model": Said(
        "dumps are of a model that was not given", "left out %s (%s): %s", warns=True
    ),
    "earlier-dumps": Said(
        "an op was dumped several times and GOLDEN holds another number of runs",
        "left out %s of %s: golden data hold another number of runs, and the last dump counts",
        warns=True,
    ),
    "foreign-golden": Said("GOLDEN holds another tool's arrays", "GOLDEN: %s: %s; %s", warns=True),
    "unknown-ops": Said(
        "dumped ops are not the model's",
        "%s in %s: is it the json of the model that was dumped?%s (%s)",
        warns=True,
    ),
    "other-fusions": Said(
        "the json has operators apart that the om has fused",
        "the json has operators apart that the om has fused: is it the json of the model that "
        "was dumped? (%s)",
        "give the json of the om that was dumped",
        warns=True,
    ),
    "perhaps-fused": Said(
        "an operator behind one that is wrong has no dump",
        "there is no dump of %s: if the om has them fused, the json is of another build, and what "
        "is named need not be wrong",
        "give the json of the om that was dumped",
        warns=True,
    ),
    "damaged-files": Said(
        "dumps, or golden files beside them, cannot be read whole",
        "%s could not be read whole: %s",
        "if what writes them has not ended: wait, and the same command compares the rest; "
        "goldwatch watch compares dumps as they come",
        warns=True,
    ),
    "golden-of-other-steps": Said(
        "golden data of another step fit what those of its own do not",
        "golden data are of other steps: %s (%s: outside the limits of the golden data given, "
        "within those of that step)",
        "give each step the golden data that fit it: GOLDEN's folders are called by the steps of "
        "the dumps",
        warns=True,
    ),
    "golden-of-one-step": Said(
        "golden data that are for all steps fit one alone",
        "GOLDEN, which is for all steps, may be of step %s: there all outputs are within their "
        "limits, and in %s %s the first of all is outside",
        "give each step the golden data of its own input, in GOLDEN/{step}/",
        warns=True,
    ),
    "steps-without-golden": Said(
        "GOLDEN lacks the folder of a dumped step",
        "GOLDEN's folders are steps (%s): there is none for %s %s, and no row",
        warns=True,
    ),
    "steps-without-dump": Said(
        "TARGET lacks a step of GOLDEN",
        "GOLDEN has data of %s %s, of which TARGET holds no dump",
        warns=True,
    ),
    "several-gears": Said(
        "gears of a model ran, and GOLDEN is of one input shape",
        "dumps of several gears are there (%s): golden data of one input shape fit one of them; "
        "give those of each step below GOLDEN/{step}/",
        warns=True,
    ),
    "several-golden-models": Said(
        "GOLDEN holds golden data of several models, none of TARGET's name",
        "GOLDEN holds golden data of several runs, each with its own manifest (%s), and none has "
        "the name of TARGET's model %s: what they hold in different values was compared with none; "
        "call the folder of its golden data as the model, or give it alone",
        warns=True,
    ),
    "several-golden-runs": Said(
        "a folder of GOLDEN holds several runs' files of one output, in other values",
        "GOLDEN holds golden files of several runs, for %s, in other values (%s): the newest "
        "count; if they are of another input, model or step, give a folder of the right run alone",
        warns=True,
    ),
    "other-shapes": Said(
        "no row was compared, and golden tensors of the names are of other shapes",
        "golden data have another shape than TARGET at %s, the first is %s (%s): they may be of "
        "another batch or input size",
        "make golden data with the shapes that the om ran with (golden onnx dump --shape, or -i)",
        warns=True,
    ),
    "golden-of-another-model": Said(
        "GOLDEN holds golden data of other models of -f only",
        "GOLDEN has no golden data of TARGET's model %s: those in %s are of another model of -f, "
        "by the folder's name or manifest; call the folder of its golden data as the model, or "
        "give it alone",
        warns=True,
    ),
    "model-of-another-file": Said(
        "of a replay no operator with weights fits, and the om was compiled from another file than "
        "MODEL",
        "MODEL is %s, and the om of %s was compiled from %s: if these are two models, no operator "
        "need be wrong",
        "give the model that the om was compiled from",
        warns=True,
    ),
    "golden-of-another-file": Said(
        "rows fail, no operator with weights fits, and the om was compiled from another file than "
        "golden data were made of",
        "golden data were made of %s, and the om of %s was compiled from %s: if these are two "
        "models, no operator need be wrong",
        warns=True,
    ),
    "to-rename": Said(
        "files of GOLDEN would hold what is missing under other names",
        "GOLDEN: %s: not named as golden data are ({op}.{output_index}.{timestamp}.npy), which "
        "goldwatch golden tf rename repairs",
        warns=True,
    ),
    "quantised": Said(
        "the model is quantised, and GOLDEN is of the net before",
        "the model is quantised (AscendQuant %s), and GOLDEN has no data under the quantised net's "
        "names (%s): is it of the net before quantisation?",
        "give --quant-json JSON, the json that the quantisation tool wrote beside the quantised "
        "model",
        warns=True,
    ),
    "superfluous-quantisation": Said(
        "GOLDEN holds the names that --quant-json maps away",
        "the quantisation json is superfluous: GOLDEN holds the quantised net's own data (%s)",
        "leave --quant-json out",
        warns=True,
    ),
    "other-places": Said(
        "two dumps have no step, device or model in common",
        "TARGET and GOLDEN have no %s in common, and are compared by it: TARGET has %s, GOLDEN %s",
        "give one of GOLDEN's folders, which is compared with all of TARGET's",
        warns=True,
    ),
    "two-builds": Said(
        "most tensors of two dumps differ in layout or lack a counterpart",
        "TARGET and GOLDEN are dumps of two builds, or of two models: of %s %d differ in layout or "
        "shape, %d have no counterpart, by name or by what they read",
        "give --unfused-om MODEL.json of GOLDEN's build, and -f MODEL.json of TARGET's, where both "
        "were made of one original model, whose operators have the same names in both (without "
        "--exact); else dump both with inputs, by which operators of other names are paired",
        warns=True,
    ),
    "other-original-names": Said(
        "of two builds most operators have other original names",
        "-f and --unfused-om name other original operators: of %s %d have no counterpart by name, "
        "such as %s; the two were made of two models, or of one whose operators were renamed",
        "leave --unfused-om out: operators of other names are then paired by what they read",
        warns=True,
    ),
    "few-layers": Said(
        "most operators have no dump",
        "most operators have no dump (%d of %d): were only chosen layers asked for?",
        "give --acl acl.json where it chose the layers to be dumped: the others are then not asked "
        "for",
        warns=True,
    ),
    "no-dumps-left": Said(
        "an earlier run deleted all dumps of a folder",
        "no dump file is there any more: the run whose result is in %s deleted %s after their "
        "comparison",
        "goldwatch report OUT --html FILE shows that result; to compare again, dump again with "
        "--keep all",
    ),
    "deleted-after-comparison": Said(
        "an earlier run deleted dumps after their comparison",
        "dumps of %s were deleted after their comparison by the run whose result is in %s",
        "the result of that run tells of them; to compare all again, dump again with --keep all",
        warns=True,
    ),
    "unmatched": Said(
        "nothing was compared, and an op has similar names in GOLDEN",
        "no golden data matched %s; the nearest golden names are %s",
        warns=True,
    ),
    "nothing-matched": Said(
        "nothing was compared", "no golden data matched any op; GOLDEN holds %s", warns=True
    ),
    "names-do-not-fit": Said(
        "without a model, dumped and golden ops do not fit one to one",
        "no model is given, and names do not fit one to one (%s)",
        _GIVE_MODEL,
        warns=True,
    ),
    NOT_JUDGED_BY_NAMES: Said(
        "the same, and rows would fail",
        "no model is given, and names do not fit one to one (%s): by names alone no operator is "
        "judged",
        _GIVE_MODEL,
        warns=True,
    ),
    # What a verdict says less than it seems to.
    "unfinished": Said(
        "the run goes on or was stopped",
        "this run goes on or was stopped before its end: the verdict is about the %d rows that it "
        "has so far%s",
        warns=True,
    ),
    "no-rows": Said(
        "the run has no rows",
        "this run has no rows: it found nothing to compare, was stopped before its end, or goes on"
        "%s",
        warns=True,
    ),
    "outputs-exchanged": Said(
        "outputs of a network hold the golden values of each other",
        "outputs hold the golden values of others: %s: their order is another than the model's, or "
        "the program exchanged them, and no operator need be wrong",
        "give --outputs NAME=FILE for each output",
        warns=True,
    ),
    "other-outputs": Said(
        "an om hands out other tensors than the original model",
        "the om hands out other tensors than the original model: %s",
        "look at what the om ends with (NetOutput in its json): an operator at the end was left "
        "out, or the outputs were chosen or exchanged when it was converted",
        warns=True,
    ),
    "no-limits": Said(
        "no limit is in force",
        "no limit is in force: nothing was judged, whatever the numbers are",
        warns=True,
    ),
    "nothing-finite": Said(
        "tensors are NaN or Inf throughout on both sides",
        "%s no finite element on either side, so that passing says nothing: %s",
        warns=True,
    ),
    "equal-nan": Said(
        "NaN lie at the same places on both sides",
        "%s NaN at the same places on both sides, which were left out: %s",
        warns=True,
    ),
    "golden-nan": Said(
        "golden tensors are NaN throughout",
        "%s golden data that are NaN throughout, which no device's output fits: %s",
        warns=True,
    ),
    "golden-overflow": Said(
        "golden data hold NaN or Inf alone",
        "%s golden data that hold NaN or Inf where the device has numbers: the golden run made "
        "them: %s",
        warns=True,
    ),
    "decided-otherwise": Said(
        "decisions near a tie are others",
        "%s other decisions than golden data, near a tie, or values that follow from such: " "%s",
        warns=True,
    ),
    "by-rounding": Said(
        "rounding alone left the limits",
        "%s left limits by rounding alone: every operator up to there was computed again and is "
        "right: %s",
        warns=True,
    ),
    "by-statistics": Said(
        "statistics were compared in place of tensors",
        "%s been compared by statistics alone, which do not see an error that leaves them as they "
        "are: %s",
        warns=True,
    ),
    "sampled": Said(
        "a sample of the elements was compared (--sample)",
        "%s been compared by a sample of the elements, which misses what lies elsewhere: %s",
        warns=True,
    ),
    "unused-limit": Said(
        "the selector of a limit matches no row",
        "the limit for %s decided nothing: %s%s",
        warns=True,
    ),
    "more-unused-limits": Said(
        "there are over five of them", "and %d more limits decided nothing", warns=True
    ),
    "memory-overlap": Said(
        "two tensors of the dump share memory (--check-addresses)", "%s", warns=True
    ),
    "deleted-dumps": Said(
        "dumps were deleted before the watch was started again (--check-addresses)",
        "%d dump%s been deleted before this start: where their tensors lay is not known",
        warns=True,
    ),
    # Runs of several hosts.
    "host-unfinished": Said(
        "the run of a host goes on", "the run of host %s has not finished: it is %s", warns=True
    ),
    "host-rows-left-out": Said(
        "there are more failing rows than --max-rows",
        "%d rows that did not pass are counted, but not stored here for want of room (%s)",
        warns=True,
    ),
    "host-unreadable": Said("the run of a host cannot be read", "%s", warns=True),
    "host-rows-damaged": Said(
        "the store of a host is damaged",
        "%d rows of its store are damaged and were left out",
        warns=True,
    ),
    "host-limits": Said(
        "the hosts have different limits",
        "its rows were judged by other limits than those of host %s",
        warns=True,
    ),
    "no-host-run": Said("a merge waits", "there is no run yet in %s: waiting for %s", warns=True),
    "host-trouble": Said("a merge tries again", "%s", warns=True),
    # locate.
    "no-file-of-atc": Said(
        "a cut needs a file that the om was made with",
        "the file of atc's --%s, %s, is not here: the cut is converted without it",
        warns=True,
    ),
    "incomplete-cut": Said(
        "the run of a cut is incomplete",
        "the run of %s is incomplete: it tells neither that it fails nor that it passes",
        warns=True,
    ),
    "infinite-inputs": Said(
        "values of an input exceed float16",
        "input %s: %d values are too large for %s (%g) and infinite on both sides",
        warns=True,
    ),
    "half-of-model": Said(
        "the om holds a part of MODEL", "the om holds a part of MODEL: golden data feed %s"
    ),
    "json-of-another-om": Said(
        "the json of -f names another om than OM",
        "%s names the om %s, and OM is %s: dumps are asked for by the name in the json",
        "leave -f out, and atc makes the json of OM",
        warns=True,
    ),
    "no-acl-json": Said(
        "the program that runs the om is not given the acl.json",
        "no word of the program holds {acl_json}: it must give the acl.json that is written to "
        "aclInit by itself",
    ),
    "fixed-shapes": Said(
        "--shapes is given, and the om has one shape",
        "the om's shapes are fixed: --shapes %s must be just these",
    ),
    "gears-to-run": Said(
        "the om has gears, and no --shapes chooses", "the om's %s is dynamic: %s; --shapes chooses"
    ),
    "input-by-shape": Said(
        "an input of the om has another name than any of MODEL",
        "the om's input %s is taken for the model's %s, by its type and shape",
    ),
    "no-network-outputs": Said(
        "the runner left no outputs of the network",
        "no outputs of the network in %s: its final outputs are judged by their dumps alone",
    ),
    "stopped-run": Said(
        "the run of the om was stopped",
        "the run was stopped: what had come is judged; the same command runs the om again",
    ),
    "result-of-earlier": Said(
        "the om was not run again", "result of %s: the om was not run again; --again runs it anew"
    ),
    # cure.
    "earlier-file-in-force": Said(
        "the om was made with such a file", "what %s names already stays in force"
    ),
    "earlier-file-missing": Said(
        "that file is not there",
        "the om was made with --%s=%s, which is not there: what it names is missing in the new "
        "file",
    ),
    "no-output-compared": Said(
        "no output of the network was compared",
        "no output of the network was compared: how errors reach it is not known",
    ),
    "estimated-operators": Said(
        "operators could not be computed again",
        "%d of %d operators could not be computed again (%s …): of their errors, what their inputs "
        "do not explain counts",
    ),
    "own-errors-alone": Said(
        "OUT is the result of a replay",
        "a replay knows own errors only: they are taken as passed on unchanged; the result of "
        "compare tells more",
    ),
    "unknown-command": Said(
        "the om's json lacks its command",
        "the om's json does not say the command that made it: add the option to yours",
    ),
    "excluded-options": Said(
        "the om's command has options that op_precision_mode excludes",
        "%s taken out: op_precision_mode excludes it",
    ),
    "supported-modes": Said(
        "always of --mode op-precision",
        "what a type supports: "
        "opp/built-in/op_impl/ai_core/tbe/impl_mode/all_ops_impl_mode.ini of the host",
    ),
    "mixed-precision-only": Said(
        "a file for modify_mixlist", "modify_mixlist counts with mixed precision only%s"
    ),
    "types-named": Said(
        "the file names types",
        "types, not operators, are named: each operator of them stays in " "float32",
    ),
    "precision-mode-replaced": Said(
        "the om's command keeps every type",
        "--%s=%s keeps every type: with it %s does nothing; --precision_mode=force_fp16 was put in",
    ),
    "precision-mode-added": Said(
        "the om's command has no precision mode",
        "%s goes with a precision mode: atc's own default, force_fp16, was put in",
    ),
    # diff.
    "compared-places": Said(
        "a host, device or model has another name in the other run",
        "%s %s of the second run is compared with %s of the first",
    ),
    "doubtful-places": Said(
        "several hosts have a place of the other run",
        "several hosts of the merge have %s of the other run: compare it with one host's results%s",
    ),
    "one-host": Said(
        "one run is of a host of the other, a merge",
        "one run is that of host %s of the merge: rows of its other hosts are left out",
    ),
    "other-limits": Said(
        "the runs have different limits",
        "the two runs were judged by different limits: verdicts may differ for that",
    ),
    "unfinished-run": Said(
        "a run goes on or was stopped",
        "%s is not finished: only the rows that it has so far are compared",
    ),
    "rows-not-stored": Said(
        "a run is a merge with --max-rows",
        "%s is a merge and does not store %s: only the rows that it stores are compared%s",
    ),
    # submodel.
    "other-om-name": Said(
        "om and net have different names",
        "the om is called %s, the net %s: taken for the same model",
    ),
    "other-dump-name": Said(
        "dumps and net have different names",
        "the dumps are of a model called %s, the net is %s: taken for the same model",
    ),
    "no-om-json": Said(
        "dumps are given without the om's json",
        "without the om json each op is looked for by its layer's name; fused ops count as missing",
    ),
    "no-weights": Said(
        "no file of weights is there", "no file of weights: dump.caffemodel is not written"
    ),
    "weights": Said(
        "a layer of the user's own has none in the caffemodel",
        "layer %s (%s): no weights in the file; whether it needs any only its code knows",
        warns=True,
    ),
    "same-options": Said(
        "always",
        "options of atc that change numbers (precision_mode, fusion switch, op_precision …) must "
        "be those of the whole model",
    ),
    "make-om-json": Said(
        "always", "make the json of the new om with: atc --mode=1 --om=dump.om --json=%s"
    ),
    "own-input": Said(
        "the cut begins at an input of the net",
        "the sub-model begins at the net's own input %s: if the whole model was converted with "
        "AIPP (insert_op_conf), do so here too, without input_fp16_nodes for it, and feed it what "
        "the whole model is fed; else leave insert_op_conf out",
    ),
    "no-own-input": Said(
        "the cut begins at none",
        "the sub-model has no input data layer: no AIPP (leave insert_op_conf out)",
    ),
    "float16-inputs": Said(
        "a .bin is float16",
        "the .bin files are float16: without input_fp16_nodes the sizes do not match",
    ),
    "inputs-of-device": Said(
        "an input is what the device recorded",
        "the inputs are what the device recorded: golden data must be made anew with the command "
        "above; comparing with the original golden data would count the error that came in",
    ),
    "inputs-are-golden": Said(
        "all inputs are golden data",
        "the inputs are golden data: the original golden data stay valid for this cut, and need "
        "not be made anew",
    ),
    "spanning-op": Said("an op computes nodes inside the cut and others", "%s", warns=True),
    "golden-input": Said(
        "the device's input is not there",
        "input %s comes from the golden data: it is not what the device saw",
        warns=True,
    ),
    "renamed-input": Said(
        "an input's name had to be another",
        "input %s is the value %s: a node of that name stays, and atc refuses a name that is "
        "repeated",
        warns=True,
    ),
    "atc-dims": Said(
        "atc does not take an input's shape",
        "input %s has the shape %s: ATC takes Caffe inputs of one to four dims, none of them 0",
        warns=True,
    ),
    "output-shape": Said(
        "an output's type or shape is not known",
        "nobody tells the type or shape of output %s, so it is declared without; only onnx.checker "
        "wants it",
        warns=True,
    ),
    "float16-range": Said(
        "values exceed float16",
        "input %s in float16: %d values become infinite, %d become 0; use float32 for its .bin",
        warns=True,
    ),
    "fusion": Said(
        "values inside are read outside",
        "%s read outside as well; here they are no outputs, so the compiler may fuse more than in "
        "the whole model",
        warns=True,
    ),
    "older-dump": Said(
        "an op has several dumps",
        "%s is left out: a later run of the same op is there",
        warns=True,
    ),
    "control-edges": Said(
        "control edges come from outside",
        "control edges from outside are left out (%d); values of nodes without a state do not "
        "depend on them",
        warns=True,
    ),
    # A tensor: notes of convert, and parts of the reasons of rows.
    "lost-values": Said("values do not fit the wanted type", "%d of %d elements %s"),
    "no-layout": Said(
        "a tensor has too few dims for a layout",
        "a tensor of %d dims has no layout, and was kept",
    ),
    "kept-padding": Said(
        "what is filling is not known",
        "no original shape is known: what fills the last blocks is kept",
    ),
    "plain-layout-kept": Said(
        "no original shape is known, and none is needed",
        "the container tells no original shape; the layout is a plain one and was kept",
    ),
    "shape-taken-as": Said(
        "the original shape fits several layouts", "the original shape %s is taken as %s"
    ),
    "made-up-name": Said(
        "a golden file's name needs parts that the source lacks",
        "the name %s has no output index and time of its own: 0 and the present time were taken",
    ),
    "no-numpy-type": Said("numpy lacks the type", "%s has no numpy type; the numbers are the same"),
    "other-golden-layout": Said(
        "golden data have another layout than the json says",
        "golden is %s, the origin format %s",
    ),
    "ambiguous-layout": Said(
        "a shape fits several layouts",
        "the golden's layout is ambiguous from its shape, taken as %s",
    ),
    "moved-dims": Said(
        "dims of size 1 stand elsewhere", "size-1 dims differ: target %s, golden %s"
    ),
    "assumed-padding": Said(
        "the golden's shape alone tells the padding",
        "no origin shape: %s as in the golden, the rest taken as padding",
    ),
    "flattened-matrix": Said(
        "a fully connected op's input was flattened", "FRACTAL_NZ matrix %s of the flattened %s"
    ),
    "layouts-of-builds": Said(
        "two builds store a tensor in different layouts",
        "the builds store it in different layouts (%s here): compared in the original one",
    ),
    "other-type": Said(
        "two dumps have a tensor in different types", "data types differ: %s, in the other dump %s"
    ),
    "reshaped": Said(
        "the model reshapes a tensor on its way",
        "reshaped from %s to %s on the way, as the model says",
    ),
    "unused-shape": Said(
        "the original shape does not fit the stored one", "%s %s does not fit %s and was not used"
    ),
    # The machine.
    "damaged-store": Said(
        "lines of the store are not as they were stored",
        "%s was damaged: %s dropped; what they were about is compared again",
        warns=True,
    ),
    "no-wal": Said("SQLite cannot use its write-ahead log", "%s"),
    "no-locks": Said(
        "the file system has no locks",
        "this file system has no locks (%s): take care that only one goldwatch writes here",
    ),
    "unwritten-tables": Said("a result table cannot be written yet", "%s", warns=True),
    "low-disk": Said(
        "the disk is nearly full and no dump may be deleted",
        "only %d bytes are free where TARGET is, fewer than %d, and no compared dump may be "
        "deleted (kept: %s)",
        warns=True,
    ),
    "no-dumps-yet": Said(
        "a watch finds other files than dumps",
        "TARGET: %s: no dump file so far: %s; %s",
        warns=True,
    ),
    "no-process": Said(
        "the process of --pid has ended",
        "there is no process %d: what is there is compared and judged",
        warns=True,
    ),
    "left-running": Said(
        "the program left others running",
        "left running: %s; what they still dump is not judged",
        warns=True,
    ),
    "not-notified": Said(
        "a URL of --notify did not answer",
        "%s was not notified of %s%s: %s; the verdict does not depend on it",
        warns=True,
    ),
    "worker-gone": Said(
        "a worker of a cluster has ended",
        "worker %s has gone (killed, or out of memory?): what it was at is compared again",
        warns=True,
    ),
    "worker-unused": Said(
        "a worker of a cluster lacks the files", "%s: it gets no work", warns=True
    ),
    "cluster-silent": Said("a cluster does not answer", "%s", warns=True),
    "no-worker": Said(
        "a cluster has no worker left",
        "no worker is left: waiting for one; Ctrl-C ends, the same command goes on",
        warns=True,
    ),
    "open-tokens": Said(
        "others may read the file of tokens",
        "others than its owner may read %s (mode %03o): chmod 600",
        warns=True,
    ),
}
