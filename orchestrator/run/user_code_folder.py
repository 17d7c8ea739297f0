"""The folder with the user's own metrics and conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, NamedTuple, Optional, Tuple

from ..errors import UsageError
from ..tensors import user_conversions
from ..tensors.user_conversions import UserConversions

if TYPE_CHECKING:
    from ..metrics.user_metrics import UserMetric


class UserCode(NamedTuple):
    """What is in the folder."""

    metrics: Tuple[UserMetric, ...] = ()
    conversions: UserConversions = UserConversions()

    @property
    def names(self) -> Tuple[str, ...]:
        """The names of the metrics."""
        return tuple(metric.name for metric in self.metrics)

    @property
    def scripts(self) -> Tuple[str, ...]:
        """All files: results that were made with other ones do not hold."""
        return tuple(metric.script for metric in self.metrics) + self.conversions.scripts


def find_user_code(folder: Optional[str], arguments: Mapping[str, Mapping[str, str]]) -> UserCode:
    """Return what is in a folder; nothing for None.

    Parameters
    ----------
    arguments
        For each metric's name its options.

    Raises
    ------
    InputError
        There is no such folder.
    UsageError
        It holds neither a metric nor a conversion, or what :func:`find_user_metrics` says; options
        without a folder.
    """
    if folder is None:
        if arguments:
            raise UsageError("options for metrics need the folder that holds the metrics")
        return UserCode()
    from ..metrics import user_metrics

    user_code = UserCode(
        user_metrics.find_user_metrics(folder, arguments), UserConversions(folder, required=False)
    )
    if not user_code.scripts:
        raise UsageError(
            "%s holds neither a metric nor a conversion" % folder,
            hint="they are %s/alg_NAME.py and %s/convert_A_to_B.py"
            % (user_metrics.FOLDER, user_conversions.FOLDER),
        )
    return user_code
