"""Which dumps of a TensorFlow graph are golden data: the names of feeds, and what is left out, by
op type and output slot.

The op types whose outputs are always strings, resources or variants come from TensorFlow 1.15's op
registry (a test compares them).
"""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, Iterable, Optional, Set, Tuple

from .uninitialised_outputs import in_a_listing

_FEED = re.compile(r"_arg_(.+)_(\d{1,9})_\d{1,9}\Z")
_RECEIVED_FEED = re.compile(r"_recv_(.+)_(\d{1,9})\Z")

_RESOURCES = """
AnonymousIterator AnonymousIteratorV2 AnonymousMemoryCache AnonymousMultiDeviceIterator AnonymousRandomSeedGenerator
BoostedTreesEnsembleResourceHandleOp BoostedTreesQuantileStreamResourceHandleOp ExperimentalStatsAggregatorHandle
ExperimentalThreadPoolHandle FIFOQueueV2 FixedLengthRecordReaderV2 GetSessionHandleV2 HashTableV2 IdentityReaderV2
MultiDeviceIterator MultiDeviceIteratorFromStringHandle MutableDenseHashTableV2 MutableHashTableOfTensorsV2 MutableHashTableV2
MutexV2 OneShotIterator PaddingFIFOQueueV2 PriorityQueueV2 RandomShuffleQueueV2 ResourceConditionalAccumulator
StatsAggregatorHandle StatsAggregatorHandleV2 StubResourceHandleOp SummaryWriter TFRecordReaderV2 TensorArrayGradV3
TensorArrayGradWithShape TensorForestTreeResourceHandleOp
TensorArrayV3 TextLineReaderV2 ThreadPoolHandle VarHandleOp WholeFileReaderV2
"""  # noqa: E501
_VARIANTS = """
AnonymousIteratorV2:1 AnonymousMemoryCache:1 AnonymousMultiDeviceIterator:1 AnonymousRandomSeedGenerator:1 DatasetFromGraph
EmptyTensorList MutexLock OptionalFromValue OptionalNone Prelinearize PrelinearizeTuple RaggedTensorToVariant SerializeIterator
TensorListConcatLists TensorListFromTensor TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListReserve
TensorListResize TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit
UnwrapDatasetVariant WrapDatasetVariant
"""  # noqa: E501
_STRINGS = """
AsString AudioSummary AudioSummaryV2 Barrier BarrierTakeMany:1 BoostedTreesCalculateBestFeatureSplit:6
BoostedTreesExampleDebugOutputs BoostedTreesSerializeEnsemble:1 BoostedTreesSparseCalculateBestFeatureSplit:6
ConditionalAccumulator ConfigureDistributedTPU DatasetToGraph DecodeBase64 DecodeCompressed DecodeJSONExample EncodeBase64
EncodeJpeg EncodeJpegVariableQuality EncodePng EncodeProto EncodeWav ExperimentalIteratorGetDevice
ExperimentalStatsAggregatorSummary FIFOQueue Fact FakeQueue FixedLengthRecordReader GetSessionHandle HashTable HistogramSummary
IdentityReader ImageSummary LMDBReader MatchingFiles MergeSummary MultiDeviceIteratorToStringHandle MutableDenseHashTable
MutableHashTable MutableHashTableOfTensors PaddingFIFOQueue PriorityQueue RandomShuffleQueue ReadFile ReaderRead ReaderRead:1
ReaderReadUpTo ReaderReadUpTo:1 ReaderReadUpToV2 ReaderReadUpToV2:1 ReaderReadV2 ReaderReadV2:1 ReaderSerializeState
ReaderSerializeStateV2 RecordInput ReduceJoin RegexReplace ScalarSummary SerializeTensor ShardedFilename ShardedFilespec
SparseConditionalAccumulator StaticRegexReplace StatsAggregatorSummary StringFormat StringJoin StringLower StringNGrams
StringSplit:1 StringSplitV2:1 StringStrip StringUpper Substr TFRecordReader TPUCompilationResult TensorArray TensorArrayGrad
TensorArrayGradV2 TensorArrayV2 TensorSummary TensorSummaryV2 TextLineReader UnicodeEncode UnicodeTranscode UnsortedSegmentJoin
WholeFileReader WorkerHeartbeat BigQueryReader DevicePlacementOp FloatOutputStringOutput:1 GenerateBigQueryReaderPartitions
KernelLabel KernelLabelRequired Rpc Skipgram TensorForestTreeSerialize TestStringOutput:1 TryRpc TryRpc:2 _ConfigureDistributedTPU
_WaitForDistributedTPU _XlaCompile
"""  # noqa: E501
_DATASET = re.compile(r"\w*Dataset(V\d+)?\Z")
# What tf2xla makes of the ops of a cluster (tensorflow/compiler/jit, 1.15 and 2.x).
_XLA = frozenset(
    ["_XlaCompile", "_XlaRun", "_XlaMerge", "XlaLaunch", "XlaLaunchV2", "XlaClusterOutput"]
)
# Enter ops that carry a handle into a loop: the stack, the variable or the TensorArray of the op in
# whose scope they stand.
_HANDLE_ENTER = re.compile(
    r"(?:.*/)?(?:StackPushV2|StackPopV2|ReadVariableOp|TensorArray[A-Za-z]+V\d)(?:_\d+)?/Enter\Z"
)
_COPIES = frozenset(["_Recv", "_HostRecv", "_Send", "_HostSend"])


def _slots(text: str) -> FrozenSet[Tuple[str, int]]:
    pairs = (word.partition(":") for word in text.split())
    return frozenset((name, int(slot or 0)) for name, _, slot in pairs)


_FIXED: Dict[Tuple[str, int], str] = {}
for _text, _reason in (
    (_RESOURCES, "a resource handle, not numbers"),
    (_VARIANTS, "a variant, not numbers"),
    (_STRINGS, "strings or a string handle, not numbers"),
):
    _FIXED.update((_key, _reason) for _key in _slots(_text))


def feed_of(node: str, op_type: str) -> Optional[Tuple[str, int]]:
    """Return ``(op, output index)`` of the tensor that a feed node stands for, or None when
    ``node`` is not a feed.

    tfdbg shows a fed ``scope/x:0`` as the op ``_arg_scope/x_0_{n}`` of type ``_Arg`` (a distributed
    session: ``_recv_scope/x_0``).
    """
    match = None
    if op_type == "_Arg":
        match = _FEED.match(node)
    elif op_type == "_Recv":
        match = _RECEIVED_FEED.match(node)
    return (match.group(1), int(match.group(2))) if match else None


def is_xla(op_type: str) -> bool:
    """Tell whether this op stands for ops of the graph that XLA compiled into one."""
    return op_type in _XLA


def copy_reason(op_type: str) -> Optional[str]:
    """Return why an op that only moves a tensor between devices is left out, or None."""
    if op_type in _COPIES:
        return "%s is a copy of another op's output between devices" % op_type
    return None


def fixed_kind(op_type: str, slot: int) -> Optional[str]:
    """Return why this output never holds numbers, whatever the graph (a string, a handle, a
    variant), or None.
    """
    if _DATASET.match(op_type):
        return "a variant, not numbers"
    return _FIXED.get((op_type, slot))


def handle_enters(ops: Iterable[Tuple[str, str]]) -> Set[str]:
    """Return the names of the ``Enter`` ops that carry a handle, not numbers, as far as names and
    types tell it.

    Parameters
    ----------
    ops
        ``(name, type)`` of the ops of a listing. A gradient's stack ``scope/f_acc_1`` enters its
        loop as ``scope/Enter_1``.
    """
    listed = set(ops)
    stacks = {name for name, op_type in listed if op_type.startswith("Stack")}
    enters: Set[str] = set()
    for name, op_type in listed:
        scope, _, leaf = name.rpartition("/")
        stack = "%s/f_acc%s" % (scope, leaf[len("Enter") :])
        if op_type in ("Enter", "RefEnter") and (
            _HANDLE_ENTER.match(name) or (leaf.startswith("Enter") and stack in stacks)
        ):
            enters.add(name)
    return enters


def left_out(op_type: str, slot: int, with_gradient: bool = False) -> Optional[str]:
    """Return why a row of a tfdbg listing gives no golden file, as far as op type and slot tell it;
    else None.

    Parameters
    ----------
    with_gradient
        Whether the run computes the gradient of a FusedBatchNorm.
    """
    if op_type.startswith("Stack"):
        return "%s belongs to a loop's gradient stack" % op_type
    if op_type.startswith("Iterator") and not op_type.startswith("IteratorGetNext"):
        return "%s belongs to an input iterator" % op_type
    return (
        fixed_kind(op_type, slot)
        or in_a_listing(op_type, slot, with_gradient)
        or copy_reason(op_type)
    )
