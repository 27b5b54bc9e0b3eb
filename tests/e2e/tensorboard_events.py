"""Parses the event files of TensorBoard: records of protocol buffers."""
import struct


def records(data):
    """Return the data of the records of a TFRecord file."""
    out, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        out.append(data[at + 12:at + 12 + size])
        at += 16 + size
    return out


def fields(message):
    """Return the fields of a protocol buffer by number."""
    at, out = 0, {}

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        elif kind == 2:
            size = varint()
            at += size
            value = message[at - size:at]
        else:
            size = {1: 8, 5: 4}[kind]
            (value,) = struct.unpack_from("<d" if size == 8 else "<f", message, at)
            at += size
        out.setdefault(key >> 3, []).append(value)
    return out
