"""Reads the files of a checkpoint; the format is in sluice/run/checkpoint.h."""

import json
import math
import struct
from pathlib import Path

WIDTHS = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1,
          "uint8": 1}


def tensors(path):
    """Name -> bytes."""
    data = Path(path).read_bytes()
    size = struct.unpack_from("<Q", data, 16)[0]
    found = {}
    for entry in json.loads(data[32:32 + size])["tensors"]:
        begin = 32 + size + entry["offset"]
        found[entry["name"]] = data[begin:begin + WIDTHS[entry["dtype"]] * math.prod(entry["dims"])]
    return found
