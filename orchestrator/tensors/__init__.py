"""Bytes to numpy and back: element types, layouts, aligned blocks.

``dtypes`` and ``storage_layouts`` know the codes of the dump container, ``tensor`` reads elements
in windows, ``storage_layouts`` also gives the order of storage axes, ``layout_conversion`` converts
whole arrays, ``geometry`` matches a target with its golden, ``strided_boxes`` and
``aligned_blocks`` iterate over both.
"""
