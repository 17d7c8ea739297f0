"""Dumps on the workers' own disks: each compares what lies there, and who lacks what is said before OUT is made."""

from __future__ import annotations

import os
import shutil
import socket
import struct

import pytest
from clusters import TIME, url
from in_process import run_here
from worker_faults import Forgets, Gate, Leaves, lists_after, planted

from goldwatch.cluster import dispatch, workplaces
from goldwatch.results.store import RunStore
from goldwatch.testing.dump import Place, overflow_record, write_files


@pytest.fixture
def own_disks(training, own_client):
    """Two workers, each in a folder that holds other devices under the same path; this process stands in one that holds none."""
    target = "/proc/self/cwd/" + TIME
    for number, (worker, devices) in enumerate(zip(sorted(own_client.nthreads()), (["0", "2"], ["1"]))):
        folder = training.path("host%d" % number)
        os.makedirs(os.path.join(folder, TIME))
        for device in devices:
            shutil.copytree(training.path("dump", TIME, device), os.path.join(folder, TIME, device))
        shutil.copytree(training.path("golden"), os.path.join(folder, "golden"))
        own_client.run(os.chdir, folder, workers=[worker])
    return target


def remote(training, client, out, *options, model=None):
    model = model or training.path("net.json")
    words = ["goldwatch", "compare", "/proc/self/cwd/" + TIME, training.path("golden"), "-f", model, "-o", out, "--recompute", "none"]
    return run_here([*words, "--cluster", url(client), "--locality", *options], training.folder)


def test_each_worker_compares_what_lies_on_its_own_disk(training, own_client, own_disks, small_batches) -> None:
    words = ["goldwatch", "compare", training.path("dump", TIME), training.path("golden"), "-f", training.path("net.json"), "-o", "here"]
    words += ["--recompute", "none"]
    assert run_here(words, training.folder).returncode == 1
    done = remote(training, own_client, "there")
    assert done.returncode == 1, done.stderr
    assert training.results("there").keys() == training.results("here").keys()
    for name, data in training.results("here").items():
        assert training.results("there")[name] == data.replace(training.path("dump").encode(), b"/proc/self/cwd"), name
    assert "goldwatch compare-op %s/1/net/1/1 " % own_disks in " ".join(done.stdout.split()), done.stdout
    # Golden data on the workers' own disks, and the same run again: what is compared holds.
    with RunStore.open(training.path("there")) as store:
        before = store.counted.all()
    done = remote(training, own_client, "there", "--worker-golden", "/proc/self/cwd/golden")
    assert done.returncode == 1, done.stderr
    with RunStore.open(training.path("there")) as store:
        assert store.counted.all() == before and not store.events.all("removed")
    assert training.compare("other", "--locality", "--cluster", url(own_client), "--check-addresses").returncode != 1


def new_form(task_id):
    return struct.pack("<6I", 0x5A5A5A5A, 1, 1, 0, 0, 88) + struct.pack("<11Q", 7, 0, task_id, 0, 0, 0, 0, 0, 0, 0, 5)


@pytest.fixture
def overflowed(training):
    """Records beside the dumps of devices 0 and 1, above those of device 2, and one that is cut."""
    for device, step, op in ((0, 1, 2), (1, 0, 4), (1, 2, 1), (2, 0, 3)):
        write_files(training.path("dump"), [overflow_record(Place(TIME, device, "net", 1, step), 90 + op, 17, 0, new_form(op))])
    above = training.path("dump", TIME, "2", "net", "1", "0")
    (name,) = (name for name in os.listdir(above) if name.startswith("Opdebug"))
    os.rename(os.path.join(above, name), training.path("dump", TIME, "2", name))
    with open(training.path("dump", TIME, "0", "net", "1", "0", name.replace("93", "94")), "wb") as stream:
        stream.write(b"short")


def test_overflow_records_are_read_where_they_lie(training, own_client, overflowed, own_disks, small_batches) -> None:
    words = ["goldwatch", "compare", training.path("dump", TIME), training.path("golden"), "-f", training.path("net.json"), "-o", "here"]
    words += ["--recompute", "none"]
    here = run_here(words, training.folder)
    there = remote(training, own_client, "there")
    assert here.returncode == there.returncode == 1, there.stderr
    for name, data in training.results("here").items():
        assert training.results("there")[name] == data.replace(training.path("dump").encode(), b"/proc/self/cwd"), name
    marked = {(row["device"], row["step"], row["op"]) for row in training.rows("there") if row["overflow"]}
    assert marked == {("0", "1", "op2"), ("1", "0", "op4"), ("1", "2", "op1"), *(("2", str(step), "op3") for step in range(3))}
    said = [[line for line in done.stderr.splitlines() if "overflow record" in line] for done in (here, there)]
    assert said[0] == said[1] and len(said[0]) >= 2, said


def lengthen(path):
    with open(path, "ab") as stream:
        stream.write(b"xx")


@pytest.mark.parametrize("change", [os.remove, lengthen])
def test_two_machines_with_other_dumps_of_one_device_are_refused(training, own_client, own_disks, change) -> None:
    shutil.copytree(training.path("dump", TIME, "1"), training.path("host0", TIME, "1"))
    (name, *_) = os.listdir(training.path("host0", TIME, "1", "net", "1", "0"))
    change(training.path("host0", TIME, "1", "net", "1", "0", name))
    done = remote(training, own_client, "there")
    assert done.returncode == 4 and "see different dump files in 1/net/1/0" in done.stderr
    shutil.rmtree(training.path("host0", TIME))
    done = remote(training, own_client, "there")
    assert done.returncode == 1 and "sees no dump file of TARGET" in done.stderr


def refused(training, client, *options, **named):
    """Return what is said of a run that ends with 4 before OUT is made."""
    done = remote(training, client, "there", *options, **named)
    assert done.returncode == 4 and not os.path.exists(training.path("there")), done.stderr
    return done.stderr


def test_a_model_that_no_machine_has(training, own_client, own_disks) -> None:
    said = refused(training, own_client, model="/proc/self/cwd/net.json")
    assert all("worker %s does not see /proc/self/cwd/net.json" % worker in said for worker in own_client.nthreads())


def test_a_machine_without_golden_data_is_named(training, own_client, own_disks) -> None:
    shutil.rmtree(training.path("host1", "golden"))
    blind = sorted(own_client.nthreads())[1]
    said = refused(training, own_client, "--worker-golden", "/proc/self/cwd/golden")
    place = "in 1/net/1/0 on machine %s" % socket.gethostname()
    assert "no worker can compare the dumps %s: worker %s does not see GOLDEN" % (place, blind) in said
    said = refused(training, own_client, "--worker-golden", "/proc/self/cwd/{host}")
    assert all("worker %s does not see GOLDEN (/proc/self/cwd/{host})" % worker in said for worker in own_client.nthreads())
    assert remote(training, own_client, "there", "--worker-golden", "/proc/self/cwd/{hos}").returncode == 2


def test_what_is_not_seen_any_more_is_not_sent_again_and_again(training, own_client, own_disks) -> None:
    with planted(own_client, Forgets()):
        done = remote(training, own_client, "there")
    assert done.returncode == 4 and "no worker is left that can compare" in done.stderr, done.stderr
    assert "does not see GOLDEN" in done.stderr and "the same command goes on" in done.stderr


def test_a_machine_whose_workers_leave_is_named(training, own_client, own_disks, small_batches, monkeypatch) -> None:
    monkeypatch.setattr(dispatch, "NOBODY_S", 2)
    with planted(own_client, Leaves("1")):
        done = remote(training, own_client, "there")
    assert done.returncode == 4 and "no worker is left on machine %s: waiting" % socket.gethostname() in done.stderr, done.stderr
    assert "has been there for 2 s" in done.stderr


def test_a_worker_that_hangs_while_it_lists_is_named(training, own_client, own_disks, monkeypatch) -> None:
    monkeypatch.setattr(workplaces, "LISTING_S", 1)
    (worker, _) = own_client.nthreads()
    with Gate(training.path("gate")) as gate:
        own_client.run(lists_after, gate, workers=[worker])
        said = refused(training, own_client)
    assert "no answer for 1 s from worker" in said and worker in said
