"""Finding the computation of a type."""

from __future__ import annotations

import threading

from goldwatch.operators import registry


def test_a_type_is_found_once_its_module_is_imported_whole(monkeypatch):
    registered, may_end, whole, found = threading.Event(), threading.Event(), [], []

    def importing(name, package):
        registry.operator(onnx=["Half"])(lambda node, inputs, arithmetic: [])
        registered.set()
        assert may_end.wait(60)
        whole.append(name)

    monkeypatch.setattr(registry, "import_module", importing)
    monkeypatch.setattr(registry, "_MODULES", ("slow",))
    monkeypatch.setattr(registry, "_OPERATORS", {})
    first, second = (
        threading.Thread(
            target=lambda: found.append((registry.find(registry.ONNX, "Half"), [*whole]))
        )
        for _ in range(2)
    )
    first.start()
    assert registered.wait(60)
    second.start()
    second.join(0.2)
    assert not found
    may_end.set()
    for thread in (first, second):
        thread.join()
    assert [names for entry, names in found if entry is not None] == [[".slow"], [".slow"]]
