"""A finding of the checker and the report that holds them."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

from ..base.fast_dataclasses import dataclass

ERROR = "error"
WARNING = "warning"
NOTE = "note"
_ORDER = {ERROR: 0, WARNING: 1, NOTE: 2}

Path = Tuple[Union[str, int], ...]


class Finding(NamedTuple):
    """One thing that a reader of a dump configuration must know (a tuple, since there may be a
    hundred thousand).

    Attributes
    ----------
    severity
        ``error`` (a real consumer rejects it, or what was asked for certainly is not dumped),
        ``warning`` (accepted but probably not meant) or ``note``.
    rule
        Stable kebab-case id.
    path
        Keys and indices from the document's root.
    message, consumer, fix
        What is wrong, what the real consumer does with it, the corrected value.
    at_key
        Whether the place is the key rather than the value.
    line, column
        Counted from 1, in characters; None when there is no such place.
    environment
        Whether the rule is about this machine's file system.
    """

    severity: str
    rule: str
    path: Path
    message: str
    consumer: str
    fix: str
    at_key: bool = False
    line: Optional[int] = None
    column: Optional[int] = None
    environment: bool = False

    @property
    def pointer(self) -> str:
        """The JSON pointer (RFC 6901) of :attr:`path`."""
        pointer = "".join(["/%s" % part for part in self.path])
        if "~" in pointer or pointer.count("/") > len(self.path):
            return "".join(
                "/" + str(part).replace("~", "~0").replace("/", "~1") for part in self.path
            )
        return pointer

    def to_document(self) -> Dict[str, Any]:
        """Return the finding as the JSON report has it."""
        return {
            "severity": self.severity,
            "rule": self.rule,
            "pointer": self.pointer,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "consumer": self.consumer,
            "fix": self.fix,
        }


@dataclass(frozen=True)
class Report:
    """What was found in one file.

    Attributes
    ----------
    file
        The file as it was named.
    kind
        ``acl`` or ``npu``.
    findings
        In the order of the file.
    """

    file: str
    kind: str
    findings: Tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(1 for finding in self.findings if finding.severity == ERROR)

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return sum(1 for finding in self.findings if finding.severity == WARNING)

    def to_document(self) -> Dict[str, Any]:
        """Return the document of schemas/config_check.schema.json."""
        return {
            "file": self.file,
            "kind": self.kind,
            "findings": [finding.to_document() for finding in self.findings],
            "errors": self.errors,
            "warnings": self.warnings,
        }


class Findings:
    """Collects findings.

    Parameters
    ----------
    elsewhere
        Whether findings about this machine's file system become notes.
    """

    def __init__(self, elsewhere: bool = False) -> None:
        self.elsewhere = elsewhere
        self.items: List[Finding] = []

    def add(
        self,
        severity: str,
        rule: str,
        path: Path,
        message: str,
        consumer: str,
        fix: str,
        at_key: bool = False,
    ) -> None:
        """Add a finding that is about the configuration itself."""
        self.items.append(Finding(severity, rule, path, message, consumer, fix, at_key))

    def error(
        self, rule: str, path: Path, message: str, consumer: str, fix: str, at_key: bool = False
    ) -> None:
        """Add an error."""
        self.add(ERROR, rule, path, message, consumer, fix, at_key)

    def warning(
        self, rule: str, path: Path, message: str, consumer: str, fix: str, at_key: bool = False
    ) -> None:
        """Add a warning."""
        self.add(WARNING, rule, path, message, consumer, fix, at_key)

    def note(
        self, rule: str, path: Path, message: str, consumer: str, fix: str, at_key: bool = False
    ) -> None:
        """Add a note."""
        self.add(NOTE, rule, path, message, consumer, fix, at_key)

    def environment(
        self, severity: str, rule: str, path: Path, message: str, consumer: str, fix: str
    ) -> None:
        """Add a finding about this machine's file system; with ``elsewhere`` it is a note."""
        self.items.append(
            Finding(
                NOTE if self.elsewhere else severity,
                rule,
                path,
                message,
                consumer,
                fix,
                environment=True,
            )
        )


def in_file_order(findings: Iterable[Finding]) -> List[Finding]:
    """Return the findings by line and column, then by severity; those without a place come
    first.
    """
    return sorted(
        findings,
        key=lambda finding: (finding.line or 0, finding.column or 0, _ORDER[finding.severity]),
    )


def placed(finding: Finding, line: Optional[int], column: Optional[int]) -> Finding:
    """Return the finding with its place."""
    return finding._replace(line=line, column=column)
