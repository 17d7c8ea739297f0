-- The store of one run: OUT/run.sqlite. goldwatch executes this file as it stands when it makes a new store.
--
-- Anyone may read it while a run goes on:  sqlite3 'file:OUT/run.sqlite?mode=ro' 'SELECT op, tensor, reason FROM row WHERE verdict = "fail"'
--
-- Text that is not valid UTF-8 (file names may hold any bytes) is stored as a BLOB of its bytes. Numbers that are not finite are the texts
-- 'NaN', 'Infinity' and '-Infinity'; integers outside 64 bits are text (such columns
-- have no type, or SQLite would round them). The header's application_id is 1198484580 ('Gold'), its user_version
-- the version of this layout. The file is input too: goldwatch uses no store whose schema differs from this text by a letter.
--
-- sum, in each table: 64 bits of BLAKE2b, as 16 hexadecimal digits, of Python's ascii() of the list of the line's other values (without
-- id) in the order of goldwatch's store/row_sql.py. A line that does not fit is dropped and found again.

-- What the run is, one fact a row; values are JSON.
--   inputs        the inputs and options; only the same ones continue this store
--   started       "YYYYmmddHHMMSS", local time of the first start; part of the result files' names
--   model_file    size, modification time and inode of the model file that the rows were planned with
--   version       goldwatch's version at the first start
--   result_files  the tables of this run in OUT
--   expected      {"files", "bytes"} of the dump files that there are to compare, where all were there at the start
--   ops           {"come", "expected"}: of how many ops a watch has compared the dumps, and of how many they will come
--   columns       the columns of these tables
--   summary       result.json's summary, once the run has finished; not there while it goes on
--   judged        how a finished run was judged: what was forgiven, its last sentence and exit code, what it took, assumed and left out
--   whole_summary the same run's summary, with what result.json leaves out of it or rounds
--   void          rows up to this id may have been others before: some were removed or renumbered, or were in an earlier store here
--   graphs        the networks: ops, what feeds them, shapes and layouts; so that a report needs nothing but this file
CREATE TABLE run (
    key   TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL,
    sum   TEXT NOT NULL
);

-- The current, finished rows: view row, as many as result.json and the result files have. What the rows of a place, and those of a tensor at
-- all places, share is stored once, in the tables place and tensor; a line there may have no row any more. A row's sum is of the columns of
-- the view. A row that is found again is deleted and inserted, so id rises in the order of arrival and is never used twice. The first is the
-- microseconds from 1970 to the store's making, below 2**53: no id of a store that was here before comes again.
CREATE TABLE place (
    id INTEGER PRIMARY KEY,
    time TEXT,                           -- time, device, model, model_id and step are folders of the dump tree; null outside one
    device TEXT,                         -- the device's folder
    model TEXT,                          -- the model's folder
    model_id TEXT,                       -- the folder of the model's number
    step TEXT,                           -- the folder of the dump step
    sum TEXT NOT NULL
);
CREATE TABLE tensor (
    id INTEGER PRIMARY KEY,
    "index" NOT NULL,                    -- number of the group of ops that share their original operators, in the json's order
    op_sequence,                         -- the op's id in the json, 0 where it has none there; null without a json
    op_type TEXT NOT NULL,               -- the op's type
    op TEXT NOT NULL,                    -- the op's name in the json; without a json as in the file's name
    "group" TEXT NOT NULL,               -- JSON list: all ops that share their original operators, in the json's order
    golden TEXT NOT NULL,                -- original names joined by ',', or '*' when there is no counterpart
    tensor TEXT NOT NULL,                -- TensorIndex: op:input:0, op:output:0, or the op for a row about the whole op
    kind TEXT NOT NULL,                  -- what the row is about: input, output, op
    tensor_index,                        -- number of the input or output; null for a row about the whole op
    shape TEXT,                          -- JSON list: in the golden tensor's layout where compared, else the device's; null when unknown
    target_dtype TEXT,                   -- element type of the target; null when unknown
    golden_dtype TEXT,                   -- element type of the golden tensor; null when unknown
    overflow INTEGER,                    -- 0 or 1: whether the op overflowed; null where not checked
    reason TEXT NOT NULL,                -- notes and causes joined by '; ', may be empty for pass
    reason_codes TEXT NOT NULL,          -- codes of those parts of the reason that other verdicts hang on, joined by '; ', some as CODE=VALUE
                                         -- (docs/reference/results.md); mostly empty
    decided_by TEXT NOT NULL,            -- the limits that decided, written as options have them, joined by '; ': those not met of a failing row, all
                                         -- that were looked at of a passing one; empty where no limit decided
    cause TEXT NOT NULL,                 -- why a row is not_compared: golden_missing, dump_missing (which can be forgiven), corrupt, changed (a file,
                                         -- while it was compared), shape, dtype, nondeterministic, given (the golden manifest says so), crashed, by_name
                                         -- (no model tells whether the golden tensor of its name is its counterpart); else empty
    golden_file TEXT,                    -- relative to GOLDEN, or absolute; null when there is none
    graph_index NOT NULL,                -- number of the op's graph in the json
    position INTEGER NOT NULL,           -- the op's place in its group
    sum TEXT NOT NULL
);
CREATE TABLE row_at_place (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,            -- what the row is about; the same after a restart
    place_id INTEGER NOT NULL,           -- of table place
    tensor_id INTEGER NOT NULL,          -- of table tensor
    address,                             -- of the target, in bytes, from its dump file's header; null when absent
    golden_address,                      -- the same of golden data that are dump files
    CosineSimilarity,
    MaxAbsoluteError,
    AccumulatedRelativeError,
    RelativeEuclideanDistance,
    KullbackLeiblerDivergence,
    StandardDeviation,                   -- JSON {"target": {"mean", "std"}, "golden": {"mean", "std"}}
    MeanAbsoluteError,
    RootMeanSquareError,
    MaxRelativeError,
    MeanRelativeError,
    WorstSliceDistance,
    DifferentElements,
    user_metrics TEXT,                   -- JSON {name: value} of metrics of the user's own
    worst_slice TEXT,                    -- JSON {"axis", "index"}: the slice with the largest distance: an axis of the golden and the index along it;
                                         -- null where nothing differs or there is one slice only
    nan TEXT,                            -- JSON {"target", "golden"}: how many elements are NaN; null when not compared
    inf TEXT,                            -- JSON {"target", "golden"}: how many elements are infinite; null when not compared
    verdict TEXT NOT NULL,               -- what the limits say: pass, fail, not_compared, expected_absent
    warning TEXT NOT NULL,               -- empty, or what makes a passing row doubtful: nothing_finite, sampled, statistics, decided_otherwise
    target_file TEXT,                    -- relative to TARGET, or absolute; null when there is none
    timestamp_us NOT NULL,               -- the target file's, microseconds since 1970: the execution order without a json
    sum TEXT NOT NULL
);
CREATE INDEX row_verdict ON row_at_place (verdict, warning, place_id);
CREATE INDEX row_target_file ON row_at_place (target_file);
CREATE INDEX tensor_sum ON tensor (sum);
CREATE VIEW row AS
SELECT
    row_at_place.id, key, time, device, model, model_id, step, "index", op_sequence, op_type, op, "group", golden, tensor.tensor, kind,
    tensor_index, shape, target_dtype, golden_dtype, address, golden_address, CosineSimilarity, MaxAbsoluteError, AccumulatedRelativeError,
    RelativeEuclideanDistance, KullbackLeiblerDivergence, StandardDeviation, MeanAbsoluteError, RootMeanSquareError, MaxRelativeError,
    MeanRelativeError, WorstSliceDistance, DifferentElements, user_metrics, worst_slice, nan, inf, overflow, verdict, reason, reason_codes,
    decided_by, warning, cause, target_file, golden_file, graph_index, timestamp_us, position, row_at_place.sum
FROM row_at_place LEFT JOIN place ON place.id = place_id LEFT JOIN tensor ON tensor.id = tensor_id;

-- The files that were looked at.
CREATE TABLE file (
    path       TEXT PRIMARY KEY NOT NULL,
    size_bytes INTEGER NOT NULL,
    mtime_ns   INTEGER NOT NULL,         -- nanoseconds since 1970
    state      TEXT NOT NULL,
    sum        TEXT NOT NULL
);

-- What happened: starts, rows replaced or removed (with what they said before), retries, damage, notes; omitted: tensors that by the rules have no row.
CREATE TABLE event (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    time_ns INTEGER NOT NULL,            -- nanoseconds since 1970
    kind    TEXT NOT NULL,
    op      TEXT,
    text    TEXT NOT NULL,
    sum     TEXT NOT NULL
);
CREATE INDEX event_kind ON event (kind, op);
