"""Bytes to numpy and back: element types, layouts, aligned blocks.

``dtypes`` and ``formats`` know the codes of the dump container, ``tensor`` reads elements in
windows, ``axes`` gives the order of storage axes, ``layouts`` converts whole arrays, ``geometry``
matches a target with its golden, ``boxes`` and ``blocks`` iterate over both.
"""
