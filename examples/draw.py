#!/usr/bin/env python3
"""Draws the pictures of the tutorials. Needs nothing but Python.

    python3 examples/draw.py shapes FOLDER      circles, squares and triangles, a folder for each: train/, val/; strange/ has stars
    python3 examples/draw.py streets FOLDER     streets with masks: road, house, sky, car; fog/ has the same streets in fog
"""
import math
import random
import struct
import sys
import zlib
from pathlib import Path


def png(path, rows, colours):
    """Rows of RGB triples (colours = 3) or of indices (colours = 1) as a PNG file."""
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))  # noqa: E731
    lines = b"".join(b"\0" + bytes(value for pixel in row for value in (pixel if colours == 3 else (pixel,))) for row in rows)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2 if colours == 3 else 0, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def noisy(colour, dice, spread=20):
    return tuple(min(255, max(0, round(value + dice.gauss(0, spread)))) for value in colour)


def inside(shape, x, y, radius, turn):
    """Whether a point, seen from the centre, lies in the shape."""
    angle, distance = math.atan2(y, x) + turn, math.hypot(x, y)
    if shape == "circle":
        return distance < radius
    if shape == "star":
        return distance < radius * (0.6 + 0.6 * (angle * 5 / (2 * math.pi) % 1 - 0.5) ** 2 * 4)
    corners = {"triangle": 3, "square": 4}[shape]
    step = 2 * math.pi / corners
    return distance * math.cos(angle % step - step / 2) < radius * math.cos(step / 2) * 1.2


def shape(name, dice, side=24):
    radius, turn = dice.uniform(4, 8), dice.uniform(-0.4, 0.4)
    middle = [side / 2 + dice.uniform(-3, 3) for _ in "xy"]
    ground, ink = [dice.randrange(150, 256) for _ in "rgb"], [dice.randrange(100) for _ in "rgb"]
    return [[noisy(ink if inside(name, x - middle[0], y - middle[1], radius, turn) else ground, dice, 30) for x in range(side)] for y in range(side)]


def shapes(folder):
    dice = random.Random(1)
    for part, names, count in (("train", ("circle", "square", "triangle"), 250), ("val", ("circle", "square", "triangle"), 50), ("strange", ("star",), 20)):
        for name in names:
            for number in range(count):
                place = folder / part / (f"{number:03}.png" if part == "strange" else f"{name}/{number:03}.png")
                png(place, shape(name, dice), 3)


SKY, HOUSE, ROAD, CAR = range(4)
PAINT = {SKY: (130, 180, 230), HOUSE: (170, 110, 80), ROAD: (90, 90, 95), CAR: (200, 40, 40)}


def street(dice, side=64):
    """Indices of a street: sky, houses, a road and cars on it."""
    horizon = dice.randrange(side // 2 - 6, side // 2 + 6)
    mask = [[ROAD if y > horizon else SKY for _ in range(side)] for y in range(side)]
    x = 0
    while x < side:
        width, top = dice.randrange(8, 18), horizon - dice.randrange(6, 22)
        for column in range(x, min(side, x + width)):
            for y in range(top, horizon + 1):
                mask[y][column] = HOUSE
        x += width + dice.randrange(0, 8)
    for _ in range(dice.randrange(1, 4)):
        left, top = dice.randrange(0, side - 14), dice.randrange(horizon + 2, side - 8)
        for y in range(top, top + 7):
            for column in range(left, left + 13):
                mask[y][column] = CAR
    return mask


def painted(mask, dice, fog=0.0):
    shade = [dice.uniform(0.75, 1.15) for _ in PAINT]
    colour = lambda index: tuple(fog * 225 + (1 - fog) * shade[index] * value for value in PAINT[index])  # noqa: E731
    return [[noisy(colour(index), dice, 12) for index in row] for row in mask]


def streets(folder):
    dice = random.Random(2)
    for part, count in (("train", 60), ("val", 15), ("test", 15)):
        for number in range(count):
            mask = street(dice)
            png(folder / "images" / part / f"{number:03}.png", painted(mask, dice), 3)
            png(folder / "masks" / part / f"{number:03}.png", mask, 1)
            if part == "test":
                png(folder / "fog" / f"{number:03}.png", painted(mask, dice, 0.7), 3)


if __name__ == "__main__":
    drawings = {"shapes": shapes, "streets": streets}
    if len(sys.argv) != 3 or sys.argv[1] not in drawings:
        sys.exit(__doc__)
    drawings[sys.argv[1]](Path(sys.argv[2]))
