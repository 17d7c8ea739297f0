"""The error codes of AscendCL that running an om can give: their names, and what to do.

Source: the vendor's public headers ``acl_base.h``, ``rt_error_codes.h`` and ``ge_error_codes.h``,
and its public list of return codes.
"""

from __future__ import annotations

from typing import Dict, NamedTuple

_CODES = """
100000 INVALID_PARAM a parameter is wrong
100001 UNINITIALIZE acl.init was not called
100002 REPEAT_INITIALIZE acl.init was called before
100003 INVALID_FILE a file is not there or cannot be read
100004 WRITE_FILE a file cannot be written
100005 INVALID_FILE_SIZE a file has the wrong size
100006 PARSE_FILE a file cannot be parsed
100007 FILE_MISSING_ATTR a file lacks a parameter
100008 FILE_ATTR_INVALID a parameter in a file is wrong
100009 INVALID_DUMP_CONFIG the dump configuration is refused
100010 INVALID_PROFILING_CONFIG the profiling configuration is refused
100011 INVALID_MODEL_ID there is no such model
100012 DESERIALIZE_MODEL the model cannot be read by this version
100013 PARSE_MODEL the model cannot be parsed by this version
100014 READ_MODEL_FAILURE the model's file cannot be read
100015 MODEL_SIZE_INVALID the model's file has the wrong size
100016 MODEL_MISSING_ATTR the model lacks an attribute that this version wants
100017 MODEL_INPUT_NOT_MATCH the inputs are not those of the model
100018 MODEL_OUTPUT_NOT_MATCH the outputs are not those of the model
100019 MODEL_NOT_DYNAMIC the model is not dynamic
100026 UNSUPPORTED_DATA_TYPE the data type is not supported
100027 FORMAT_NOT_MATCH the format does not match
100037 REPEAT_FINALIZE acl.finalize was called before
100039 COMPILING_STUB_MODE the libraries are those to link with, not those to run with
100044 DUMP_ALREADY_RUN a dump is on already
100045 DUMP_NOT_RUN no dump was begun
107000 RT_PARAM_INVALID a parameter is wrong
107001 RT_INVALID_DEVICEID there is no such device
107002 RT_CONTEXT_NULL there is no context: no device is set
107003 RT_STREAM_CONTEXT the stream is of another context
107004 RT_MODEL_CONTEXT the model is of another context
107008 RT_ADDR_UNALIGNED a memory address is not aligned
107009 RT_FILE_OPEN a file cannot be opened
107010 RT_FILE_WRITE a file cannot be written
107017 RT_INVALID_HANDLE a handle is wrong
107019 RT_WAIT_TIMEOUT waiting took too long
107020 RT_TASK_TIMEOUT a task took too long
145000 GE_PARAM_INVALID a parameter, such as the size of an input, is wrong
145001 GE_EXEC_NOT_INIT the executor is not initialised
145002 GE_EXEC_MODEL_PATH_INVALID there is no such model file
145003 GE_EXEC_MODEL_ID_INVALID there is no such model
145006 GE_EXEC_MODEL_DATA_SIZE_INVALID the model's data have the wrong size
145007 GE_EXEC_MODEL_ADDR_INVALID the model's address is wrong
145009 GE_EXEC_LOAD_MODEL_REPEATED the model is loaded already
145011 GE_DYNAMIC_INPUT_ADDR_INVALID the address of the input that tells the gear is wrong
145012 GE_DYNAMIC_INPUT_LENGTH_INVALID an input of a dynamic model has the wrong size
145013 GE_DYNAMIC_BATCH_SIZE_INVALID the model has no such batch
145014 GE_AIPP_BATCH_EMPTY AIPP has no parameters
148046 PROF_REPEAT_SUBSCRIBE a model is subscribed already
148049 INVALID_OPP_PATH ASCEND_OPP_PATH is not set, or wrong
148050 OP_UNSUPPORTED_DYNAMIC an operator does not support a dynamic shape
200000 BAD_ALLOC memory cannot be had
200001 API_NOT_SUPPORT the function is not supported
200002 INVALID_DEVICE there is no such device
200003 MEMORY_ADDRESS_UNALIGNED a memory address is not aligned
200006 FEATURE_UNSUPPORTED the feature is not supported
207000 RT_FEATURE_NOT_SUPPORT the feature is not supported
207001 RT_MEMORY_ALLOCATION memory on the device cannot be had
207002 RT_MEMORY_FREE memory on the device cannot be given back
207003 RT_AICORE_OVER_FLOW an AI core overflowed
207004 RT_NO_DEVICE there is no device
207005 RT_RESOURCE_ALLOC_FAIL a resource cannot be had
207006 RT_NO_PERMISSION this user may not use the device
207008 RT_NO_STREAM_RESOURCE there are no more streams
207010 RT_NO_MODEL_RESOURCE there is no room for another model
207012 RT_OVER_LIMIT a limit is exceeded
207016 RT_AIVEC_OVER_FLOW a vector core overflowed
245000 GE_MEMORY_ALLOCATION memory cannot be had
300000 STORAGE_OVER_LIMIT a storage limit is exceeded
500000 INTERNAL_ERROR an error inside of AscendCL
500001 FAILURE an error inside of AscendCL
500002 GE_FAILURE an error inside of the graph engine
500003 RT_FAILURE an error inside of the runtime
500004 DRV_FAILURE an error inside of the driver
507000 RT_INTERNAL_ERROR an error inside of the runtime
507001 RT_TS_ERROR an error of the task scheduler
507008 RT_SOC_VERSION the chip is another than the model was made for
507010 RT_LOST_HEARTBEAT the task scheduler no longer answers
507011 RT_MODEL_EXECUTE the model did not run to its end
507012 RT_REPORT_TIMEOUT no report came in time
507013 RT_SYS_DMA an error of system DMA
507014 RT_AICORE_TIMEOUT an AI core took too long
507015 RT_AICORE_EXCEPTION an AI core raised an exception
507016 RT_AICORE_TRAP_EXCEPTION an AI core raised a trap
507017 RT_AICPU_TIMEOUT an AI CPU took too long
507018 RT_AICPU_EXCEPTION an AI CPU raised an exception
507019 RT_AICPU_DATADUMP_RSP_ERR an AI CPU failed to dump data
507020 RT_AICPU_MODEL_RSP_ERR an AI CPU failed to run the model
507033 RT_DEV_SETUP_ERROR the device cannot be set up
507034 RT_VECTOR_CORE_TIMEOUT a vector core took too long
507035 RT_VECTOR_CORE_EXCEPTION a vector core raised an exception
507899 RT_DRV_INTERNAL_ERROR an error inside of the driver
507900 RT_AICPU_INTERNAL_ERROR an error inside of an AI CPU
507901 RT_SOCKET_CLOSE the connection to the device is lost
545000 GE_INTERNAL_ERROR an error inside of the graph engine
545001 GE_LOAD_MODEL the model cannot be loaded
545002 GE_EXEC_LOAD_MODEL_PARTITION_FAILED a part of the model cannot be loaded
545003 GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED the model's weights cannot be loaded
545004 GE_EXEC_LOAD_TASK_PARTITION_FAILED the model's tasks cannot be loaded
545005 GE_EXEC_LOAD_KERNEL_PARTITION_FAILED the model's kernels cannot be loaded
545009 GE_UNLOAD_MODEL the model cannot be unloaded
"""

_DEVICE = (
    "look at npu-smi info, whether another process holds the device, and whether this user may "
    "use it; or take another device"
)
_MEMORY = (
    "look at npu-smi info: other processes may hold the device's memory; a smaller batch needs less"
)
_MODEL = (
    "convert the model again with this host's atc, for this chip (its soc_version is in npu-smi "
    "info)"
)
_INPUTS = "give each input as many bytes as the om's json says"
_HINTS: Dict[int, str] = {
    **dict.fromkeys((107001, 200002, 207004, 207006, 507033, 507010, 507901), _DEVICE),
    **dict.fromkeys((200000, 207001, 207005, 207010, 245000), _MEMORY),
    **dict.fromkeys(
        (100012, 100013, 100015, 100016, 507008, 145006, 545001, 545002, 545003, 545004, 545005),
        _MODEL,
    ),
    **dict.fromkeys((145000, 145012, 100017), _INPUTS),
    100009: "goldwatch config check says what is wrong with the acl.json",
    145013: "take one of the om's gears",
    148049: "source the toolkit's set_env.sh",
}
_OTHERWISE = "what AscendCL logged is below ~/ascend/log, or where ASCEND_PROCESS_LOG_PATH says"


class Code(NamedTuple):
    """An error code: its name in the headers, what it means, and what to do."""

    name: str
    words: str
    hint: str


def explained(code: int) -> Code:
    """Return what an error code means; of one that is not known, that it is not."""
    meaning = _TABLE.get(code)
    if meaning is None:
        return Code("", "a code that the public headers do not have", _OTHERWISE)
    return meaning


def _table() -> Dict[int, Code]:
    table = {}
    for line in _CODES.strip().splitlines():
        number, name, words = line.split(" ", 2)
        table[int(number)] = Code("ACL_ERROR_" + name, words, _HINTS.get(int(number), _OTHERWISE))
    return table


_TABLE = _table()
