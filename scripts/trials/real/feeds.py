"""Inputs with the structure of real ones: pictures with natural statistics, shapes and writing;
tones, voices and spectra; files' bytes.

Every function is a pure function of its number; float32 unless it says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any

_GLYPHS = {
    "A": "0e11111f1111",
    "C": "0f101010100f",
    "E": "1f101e10101f",
    "H": "11111f111111",
    "K": "111214181412",
    "L": "10101010101f",
    "M": "111b15111111",
    "N": "111915131111",
    "O": "0e111111110e",
    "R": "1e11111e1211",
    "S": "0f100e01011e",
    "T": "1f0404040404",
    "0": "0e131519110e",
    "1": "040c0404040e",
    "2": "0e110204081f",
    "4": "02060a121f02",
    "5": "1f101e01011e",
    "7": "1f0102040808",
    "8": "0e110e11110e",
    "9": "0e110f01020c",
}
"""Six rows of five pixels each, a byte a row."""


def zeros(*shape: int) -> Array:
    """Return a state before the first step."""
    return np.zeros(shape, np.float32)


def small(number: int, *shape: int) -> Array:
    """Return an embedding."""
    return np.random.RandomState(number).normal(0, 0.3, shape).astype(np.float32)


def natural(random: Any, height: int, width: int) -> Array:
    """Return a field between 0 and 1 whose amplitudes fall with the frequency, as those of
    photographs do."""
    rows, columns = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :]
    falling = 1 / np.maximum(np.hypot(rows, columns), 1.0 / max(height, width)) ** 1.2
    field = np.fft.irfft2(
        np.fft.rfft2(random.normal(size=(height, width))) * falling, s=(height, width)
    )
    return (field - field.min()) / (field.max() - field.min() + 1e-12)


def _picture(random: Any, height: int, width: int) -> Array:
    """Return (3, H, W) between 0 and 1: correlated channels, light from one side, some flat shapes
    with edges."""
    base = natural(random, height, width)
    image = np.stack([0.75 * base + 0.25 * natural(random, height, width) for _ in range(3)])
    y, x = np.mgrid[0:height, 0:width]
    image *= 0.7 + 0.3 * x / width
    for _ in range(4):
        colour, (cy, cx) = (
            random.uniform(0.05, 0.95, 3),
            (random.uniform(0, height), random.uniform(0, width)),
        )
        h, w = random.uniform(0.08, 0.35) * height, random.uniform(0.08, 0.35) * width
        inside = (
            (np.abs(y - cy) < h) & (np.abs(x - cx) < w)
            if random.rand() < 0.5
            else ((y - cy) / h) ** 2 + ((x - cx) / w) ** 2 < 1
        )
        image[:, inside] = 0.3 * image[:, inside] + 0.7 * colour[:, None]
    return np.clip(image, 0, 1)


def _write(image: Array, random: Any, top: int, left: int, size: int, letters: int) -> None:
    """Draw a line of letters of ``5 size`` by ``6 size`` pixels, dark on light or light on dark."""
    ink = random.uniform(0, 0.25, 3) if image.mean() > 0.45 else random.uniform(0.8, 1, 3)
    for _ in range(letters):
        rows = bytes.fromhex(_GLYPHS[sorted(_GLYPHS)[random.randint(len(_GLYPHS))]])
        glyph = (
            np.array([[row >> (4 - bit) & 1 for bit in range(5)] for row in rows], bool)
            .repeat(size, 0)
            .repeat(size, 1)
        )
        if left + glyph.shape[1] > image.shape[2] or top + glyph.shape[0] > image.shape[1]:
            return
        image[:, top : top + glyph.shape[0], left : left + glyph.shape[1]][:, glyph] = ink[:, None]
        left += 6 * size


def photo(number: int, height: int, width: int) -> Array:
    """Return (1, 3, H, W) between 0 and 1."""
    return _whole(_picture(np.random.RandomState(1000 + number), height, width))


def page(number: int, height: int, width: int) -> Array:
    """Return (1, 3, H, W), normalised with the means and deviations of ImageNet: a photograph with
    lines of writing."""
    random = np.random.RandomState(2000 + number)
    image = _picture(random, height, width)
    for row in range(3):
        size = random.randint(2, 4)
        _write(
            image,
            random,
            6 + row * height // 3 + random.randint(8),
            random.randint(4, 24),
            size,
            random.randint(4, 12),
        )
    mean, deviation = (
        np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1),
        np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1),
    )
    return _whole((image - mean) / deviation)


def line(number: int, height: int, width: int) -> Array:
    """Return (1, 3, H, W) between −1 and 1: one line of writing on a soft ground."""
    random = np.random.RandomState(3000 + number)
    image = (
        0.6
        + 0.35 * np.stack([natural(random, height, width)] * 3)
        + 0.02 * random.normal(size=(3, 1, 1))
    )
    size = max(2, height // 9)
    _write(
        image, random, (height - 6 * size) // 2, random.randint(2, 12), size, width // (6 * size)
    )
    image += 0.01 * random.normal(size=image.shape)
    return _whole(np.clip(image, 0, 1) * 2 - 1)


def grey_line(number: int, height: int, width: int) -> Array:
    """Return (1, 1, H, W) between 0 and 1."""
    return (line(number + 70, height, width).mean(1, keepdims=True) / 2 + 0.5).astype(np.float32)


def music(number: int, samples: int, rate: int) -> Array:
    """Return samples between −1 and 1: notes with overtones that swell and fade, over pink
    noise."""
    random = np.random.RandomState(4000 + number)
    t = np.arange(samples) / float(rate)
    sound = np.zeros(samples)
    for _ in range(7):
        pitch, start, length = (
            110 * 2 ** (random.randint(0, 36) / 12.0),
            random.uniform(0, 0.8) * t[-1],
            random.uniform(0.1, 0.8),
        )
        envelope = np.where(
            t < start, 0, (1 - np.exp(-(t - start) / 0.01)) * np.exp(-(t - start) / length)
        )
        for overtone in range(1, 7):
            if pitch * overtone < rate / 2:
                sound += (
                    envelope
                    * np.sin(2 * np.pi * pitch * overtone * t + 3 * np.sin(11 * t))
                    / overtone**1.3
                )
    noise = np.fft.irfft(
        np.fft.rfft(random.normal(size=samples)) / np.sqrt(1 + np.arange(samples // 2 + 1)), samples
    )
    sound = sound / (np.abs(sound).max() + 1e-9) + 0.02 * noise / noise.std()
    return (0.6 * sound / np.abs(sound).max()).astype(np.float32)


def frames(number: int, count: int, length: int, step: int) -> Array:
    """Return (count, length) windows of a voice-like sound at 16 kHz: syllables with formants,
    pauses between them."""
    samples = (count - 1) * step + length
    random = np.random.RandomState(5000 + number)
    t = np.arange(samples) / 16000.0
    pitch = 120 + 30 * np.sin(2 * np.pi * 1.3 * t + random.uniform(0, 6))
    voice = sum(
        np.sin(2 * np.pi * k * np.cumsum(pitch) / 16000)
        * np.exp(-(((k * 120 - random.uniform(400, 2500)) / 700.0) ** 2))
        for k in range(1, 30)
    )
    voice *= np.clip(np.sin(2 * np.pi * random.uniform(3, 5) * t) + 0.3, 0, None)
    sound = 0.3 * voice / (np.abs(voice).max() + 1e-9) + 0.004 * random.normal(size=samples)
    return np.stack([sound[at * step : at * step + length] for at in range(count)]).astype(
        np.float32
    )


def spectra(number: int, channels: int, count: int, bins: int) -> Array:
    """Return (1, channels, frames, bins): log spectra of related sounds, scaled to about −1 to
    1."""
    sounds = [music(9 * number + c // 2, count * 128 + 512, 16000) for c in range(channels)]
    made = []
    for sound in sounds:
        windows = np.stack(
            [sound[at * 128 : at * 128 + 512] * np.hanning(512) for at in range(count)]
        )
        power = np.log10(np.abs(np.fft.rfft(windows)) ** 2 + 1e-6)[:, :bins]
        made.append(np.clip((power + 3) / 4, -1, 1.5))
    return np.stack(made)[None].astype(np.float32)


def file_bytes(number: int, count: int) -> Array:
    """Return (1, count) int32: a file's bytes, 256 where there are none."""
    random = np.random.RandomState(6000 + number)
    words = [
        "def",
        "return",
        "self",
        "import",
        "for",
        "in",
        "if",
        "None",
        "x",
        "value",
        "path",
        "=",
        "(",
        ")",
        ":",
        "\n    ",
        "0",
        "1",
    ]
    text = " ".join(words[random.randint(len(words))] for _ in range(count)).encode()[
        : count - 300 * (number % 3)
    ]
    if number % 2:
        records = b"".join(
            bytes([number & 255, 0, at & 255, at >> 8])
            + bytes(random.randint(0, 40, 12).astype(np.uint8))
            for at in range(80)
        )
        text = b"\x7fELF" + records + text[:500]
    values = np.full(count, 256, np.int32)
    values[: len(text)] = np.frombuffer(text[:count], np.uint8)
    return values[None]


def _whole(image: Array) -> Array:
    return np.ascontiguousarray(image[None], np.float32)
