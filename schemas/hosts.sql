-- What the store of a run of several hosts (goldwatch watch --merge) has besides store.sql. Its view row shows the rows that did not
-- pass, up to --max-rows of them, and all rows of the device and step where the first divergence lies; the tables below tell of all rows.
-- Facts of table run besides those of store.sql:
--   hosts         for each host how far its store has been read
--   judged_by     the limits, metrics and columns of the hosts' own runs
--   left_out      for each host how many rows that did not pass have no place here

ALTER TABLE place ADD COLUMN host TEXT NOT NULL DEFAULT '';
DROP VIEW row;
CREATE VIEW row AS
SELECT
    row_at_place.id, key, time, device, model, model_id, step, "index", op_sequence, op_type, op, "group", golden, tensor.tensor, kind,
    tensor_index, shape, target_dtype, golden_dtype, address, golden_address, CosineSimilarity, MaxAbsoluteError, AccumulatedRelativeError,
    RelativeEuclideanDistance, KullbackLeiblerDivergence, StandardDeviation, MeanAbsoluteError, RootMeanSquareError, MaxRelativeError,
    MeanRelativeError, WorstSliceDistance, DifferentElements, user_metrics, worst_slice, nan, inf, overflow, verdict, reason, reason_codes,
    decided_by, warning, cause, target_file, golden_file, graph_index, timestamp_us, position, row_at_place.sum, host
FROM row_at_place LEFT JOIN place ON place.id = place_id LEFT JOIN tensor ON tensor.id = tensor_id;

-- Each metric of each tensor in each step, over all devices of all hosts. Names that are not known are ''. NaN is no value: a metric that
-- no device has a value of (it does not apply, or NaN and Inf differ from golden data) has no line.
CREATE TABLE step_op (
    step   TEXT NOT NULL,
    op     TEXT NOT NULL,
    tensor TEXT NOT NULL,
    metric TEXT NOT NULL,
    count  INTEGER NOT NULL,             -- devices with a value
    worst,                               -- the value farthest from golden data
    mean,                                -- math.fsum(values) / count; as for numpy.mean infinite where a value is
    model  TEXT NOT NULL,                -- the device's model_name
    total  TEXT NOT NULL,                -- JSON list of numbers whose exact sum is that of all values
    sum    TEXT NOT NULL,
    PRIMARY KEY (step, op, tensor, metric, model)
);
CREATE INDEX step_op_op ON step_op (op);

-- The rows of each device × step of each host by verdict.
CREATE TABLE host_place (
    key             TEXT PRIMARY KEY NOT NULL,  -- JSON list of host, time, device, model, model_id, step
    host            TEXT NOT NULL,
    time            TEXT,
    device          TEXT,
    model           TEXT,
    model_id        TEXT,
    step            TEXT,
    passed          INTEGER NOT NULL,
    failed          INTEGER NOT NULL,
    not_compared    INTEGER NOT NULL,
    expected_absent INTEGER NOT NULL,
    outputs         INTEGER NOT NULL,    -- outputs that were compared
    sum             TEXT NOT NULL
);
