"""What is told of all operators in columns is what is told of each by itself."""

from __future__ import annotations

import random

import numpy as np
import pytest
from operator_chain import OPS, chain, row

from goldwatch.base import record_file
from goldwatch.base.record_file import RecordFile
from goldwatch.judging.diagnosis import observed_ops
from goldwatch.judging.diagnosis.model_verdict import _differing_steps
from goldwatch.judging.diagnosis.observed_ops import ObservedOps, SomeOps
from goldwatch.judging.diagnosis.op_input_states import BAD, GOOD, UNKNOWN, Inputs
from goldwatch.judging.diagnosis.own_error import distance_table
from goldwatch.judging.diagnosis.own_error.distance_table import DistanceTable
from goldwatch.judging.diagnosis.row_digest import (
    NUMBERS,
    DigestColumns,
    execution_key,
    row_digests,
)
from goldwatch.metrics.row import FAIL
from goldwatch.run.recomputation import _samples


def rows_of_run(chosen):
    """Outputs and inputs of a chain on devices and in steps, some missing, failing, in place, or
    executed twice.
    """
    rows = []
    for device in "01":
        for step in ("2", "10", "3"):
            for number in range(-1, OPS):
                if chosen.random() < 0.1:
                    continue
                for execution in range(1 + (chosen.random() < 0.1)):
                    rows += rows_of_op(chosen, number, device, step, execution)
    if chosen.random() < 0.5:
        chosen.shuffle(rows)
    return rows


def rows_of_op(chosen, number, device, step, execution):
    distance = chosen.choice((0.0, 1e-3, 2e-3, float("nan"), 0.5))
    output = row(number, distance, device=device).but(
        step=step,
        verdict=chosen.choice(("pass", "pass", "fail", "not_compared", "expected_absent")),
        address=chosen.choice((None, 0, 4096)),
        target_file="%s/%s/%d.%d" % (device, step, number, execution),
        timestamp_us=chosen.randrange(3),
    )
    read = output.but(
        kind="input",
        tensor="%s:input:0" % output.op,
        verdict=chosen.choice(("pass", "fail", "not_compared")),
        address=chosen.choice((None, 0, 4096, 8192)),
    )
    return [one for one in (output, read) if chosen.random() < 0.8]


def in_file(rows, folder):
    """Rows as a run keeps them until its end: in a file, in another order."""
    order = np.random.RandomState(len(rows)).permutation(len(rows))
    columns = DigestColumns(RecordFile(folder, NUMBERS))
    columns.append(columns.add(row_digests([rows[at] for at in order])))
    return columns.digests(np.argsort(order))


@pytest.fixture(params=range(12))
def run(request, monkeypatch, tmp_path):
    chosen = random.Random(request.param)
    rows = rows_of_run(chosen)
    graph = chain() if request.param % 3 else None
    if request.param % 4:
        # As where there are many rows: some places after the others, some records at once.
        for module, name in (
            (observed_ops, "_TOGETHER"),
            (distance_table, "_AT_ONCE"),
            (record_file, "_AT_ONCE"),
            (record_file, "_IN_ORDER"),
        ):
            monkeypatch.setattr(module, name, chosen.choice((1, 7, 50)))
    observed = ObservedOps(in_file(rows, str(tmp_path)) if request.param % 2 else rows)
    return rows, observed, Inputs(observed, graph)


def test_operators_are_those_of_their_rows(run) -> None:
    rows, observed, _ = run
    places = list(dict.fromkeys(one.place for one in rows))
    keys = dict.fromkeys((one.place, one.op, one.target_file) for one in rows)
    in_order = sorted(keys, key=lambda key: places.index(key[0]))
    assert [(op.place, op.name, op.file) for op in observed.ops] == in_order
    assert observed.places == places
    for op in observed.ops:
        own = [
            one
            for one in rows
            if (one.place, one.op, one.target_file) == (op.place, op.name, op.file)
        ]
        assert op.key == execution_key(own[0])
        for kind, tensors in (("output", op.outputs), ("input", op.inputs)):
            assert {number: seen.verdict for number, seen in tensors.items()} == {
                one.tensor_index: one.verdict for one in own if one.kind == kind
            }
        assert observed.of_file(op.place, op.name, op.file) is op
        last = max(
            (one for one in observed.ops if (one.place, one.name) == (op.place, op.name)),
            key=lambda one: one.key_at_place,
        )
        assert observed.find(op.place, op.name) is last
    keys = [op.key for op in observed.ordered()]
    assert keys == sorted(keys)
    twice = [
        (op.place, op.name)
        for op in observed.ops
        for other in observed.ops
        if (op.place, op.name) == (other.place, other.name) and op is not other
    ]
    assert observed.executed_repeatedly() == set(twice)


def test_inputs_in_columns_are_those_of_each_operator(run) -> None:
    _, observed, inputs = run
    fed = inputs.in_columns()
    states = {UNKNOWN: 0, GOOD: 1, BAD: 2}
    for op in observed.ops:
        own = slice(*fed.begins[op.at : op.at + 2].tolist())
        found = [
            (state, None if at < 0 else repr(observed.digests.observation(at)))
            for at, state in zip(fed.row[own].tolist(), fed.state[own].tolist())
        ]
        assert found == [
            (states[one.state], None if one.observation is None else repr(one.observation))
            for one in inputs.of(op)
        ]
    first = {op.place: op for op in reversed(list(observed.ordered()))}
    readers = [op for op in observed.ordered() if inputs.of_network(op) or op is first[op.place]]
    candidates = inputs.readers_of_network().tolist()
    assert {op.at for op in readers if inputs.of_network(op)} <= set(candidates)
    assert candidates == sorted(candidates, key=lambda at: observed.ranks[at])


def test_the_table_of_distances_is_that_of_each_output(run) -> None:
    _, observed, inputs = run
    table = DistanceTable(observed, inputs)
    outputs = [
        (op, number)
        for op in observed.ordered()
        for number in sorted(op.outputs)
        if op.outputs[number].compared
    ]
    assert [(table.op_of(at), int(table.number[at])) for at in range(len(table))] == outputs
    for at, (op, number) in enumerate(outputs):
        states = inputs.of(op)
        rows = [state.observation for state in states if state.observation is not None]
        known = 0 < len(states) == len(rows)
        if not known:
            rows += inputs.behind(op)
        assert table.inputs_known[at] == known
        if rows or inputs.node(op) is not None:
            together = np.sqrt(sum(np.float64(one.distance) ** 2 for one in rows))
            together = np.inf if np.isnan(together) else together
            assert table.fed[at] == pytest.approx(together)
        entry = table.entry(at)
        assert (entry.fed, entry.rounded) == (table.fed[at], table.rounded[at])
        assert repr(entry.sizes) == repr(
            [
                (table.distance(number)[at].item(), table.fed_by(number)[at].item())
                for number in range(3)
            ]
        )
        assert table.has_verdict(FAIL)[at] == (op.outputs[number].verdict == FAIL)
        assert table.all_inputs_good()[at] == all(state.state == GOOD for state in states)
        single = states[0].observation if len(states) == 1 else None
        source = int(table.single_inputs()[at])
        assert (source >= 0) == (single is not None)
        assert single is None or repr(observed.digests.observation(source)) == repr(single)


def samples(ops):
    """What _samples yields, op by op."""
    places, again = {}, []
    for op in ops:
        numbers = tuple(
            (one.kind, one.number, one.verdict, one.distance, one.cosine, one.slice_distance)
            for tensors in (op.outputs, op.inputs)
            for one in tensors.values()
        )
        known = places.setdefault((op.name, op.type), {})
        if any(value != value for one in numbers for value in one):
            known[numbers, op] = op
        elif known.setdefault(numbers, op) is not op:
            again.append(op)

    def largest(op):
        distances = [one.distance for one in op.outputs.values() if one.distance == one.distance]
        return max(distances, default=0.0)

    orders = [sorted(known.values(), key=largest, reverse=True) for known in places.values()]
    for number in range(max(map(len, orders), default=0)):
        yield [order[number] for order in orders if number < len(order)], False
    yield again, True


def test_operators_are_sampled_in_the_same_order_as_one_by_one(run) -> None:
    _, observed, _ = run
    numbers = np.random.RandomState(1).permutation(len(observed))[: len(observed) - 5]
    ops = SomeOps(observed, numbers)
    assert [(list(some), again) for some, again in _samples(ops)] == list(samples(ops))
    done = {(op.place, op.name) for op in list(ops)[::3]}
    names = {op.name for op in list(ops)[:4]}
    assert list(ops.but_named(names).but(done)) == [
        op for op in ops if (op.place, op.name) not in done and op.name not in names
    ]
    assert list(ops.executed_once()) == [
        op for op in ops if (op.place, op.name) not in observed.executed_repeatedly()
    ]


def test_steps_in_which_devices_differ_are_those_of_their_verdicts(run) -> None:
    rows, _, _ = run
    worst = ("fail", "not_compared", "pass", "expected_absent")
    # Some steps in which the devices are alike.
    rows = [one.but(device=device) for one in rows if one.device == "0" for device in "01"]
    rows += [
        one.but(verdict="fail") for one in rows if (one.device, one.step) == ("1", rows[-1].step)
    ]
    observed = ObservedOps(rows)
    expected = []
    for step in dict.fromkeys(op.place.step for op in observed.ordered()):
        told = {}
        for op in observed.ordered():
            if op.place.step == step:
                tensors = [*op.outputs.values(), *op.inputs.values()]
                found = [(one.tensor, one.verdict) for one in tensors] or [
                    (op.name, "not_compared")
                ]
                for tensor, verdict in found:
                    of_device = told.setdefault(op.place.device, {})
                    of_device[tensor] = min(
                        of_device.get(tensor, verdict), verdict, key=worst.index
                    )
        if told.get("0") != told.get("1"):
            expected.append(step)
    found = list(_differing_steps(observed))
    assert [step for step, _ in found] == expected
    for step, numbers in found:
        assert list(map(observed.op, numbers.tolist())) == [
            op for op in observed.ordered() if op.place.step == step
        ]
