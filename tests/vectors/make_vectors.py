"""Writes vectors.json: examples of the bytes that vLLM-Omni's connector and serializer put on the wire.

Run it with msgspec, numpy and torch (2.3 or later, for all float8 types) installed:

    python3 tests/vectors/make_vectors.py

The encoding is msgspec's own; only the rules by which tensors and arrays become maps are written out here.
"""

import argparse
import json
import pathlib

import msgspec
import numpy
import torch

KEY = "chatcmpl-1_0_0@0_1"


# The field order is the wire order, and so is part of the format.
class Query(msgspec.Struct):
    request_id: str


class QueryResponse(msgspec.Struct):
    request_id: str
    data_size: int
    is_fast_path: bool


class Pull(msgspec.Struct):
    request_id: str
    engine_desc_packed: bytes
    mem_desc_packed: bytes
    dst_offset: int
    length: int


def marked_map(marker, dtype, shape, data):
    return {marker: True, "dtype": dtype, "shape": [int(n) for n in shape], "data": data}


def tensor_bytes(tensor):
    if tensor.numel() == 0:
        return b""
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def replace_arrays(value):
    if isinstance(value, torch.Tensor):
        return marked_map("__tensor__", str(value.dtype).removeprefix("torch."), value.shape, tensor_bytes(value))
    if isinstance(value, numpy.ndarray):
        return marked_map("__ndarray__", value.dtype.str, value.shape, value.tobytes(order="C"))
    raise TypeError(f"no rule for {type(value)}")


ENCODER = msgspec.msgpack.Encoder(enc_hook=replace_arrays)


def control_examples():
    """Yields (name, what it holds, bytes)."""
    yield "query", f"the prefix query_info and a query for {KEY}", b"query_info" + ENCODER.encode(Query(KEY))
    for size in (1, 2**7 - 1, 2**7, 2**16 - 1, 2**16, 860160, 2**32 - 1, 2**32, 2**40):
        yield (f"reply_{size}", f"response for {KEY}: data_size {size}, not on the fast path",
               ENCODER.encode(QueryResponse(KEY, size, False)))
    yield ("reply_fast", f"response for {KEY}: data_size 4096, on the fast path",
           ENCODER.encode(QueryResponse(KEY, 4096, True)))
    yield ("pull", f"pull of {KEY}: descriptors 0102 and 03, dst_offset 4096, length 860160",
           ENCODER.encode(Pull(KEY, bytes([1, 2]), bytes([3]), 4096, 860160)))
    yield ("pull_long", "pull with a key of 300 letters k, descriptors of 300 and 70000 bytes ab, dst_offset 2^33, "
           "length 2^32+1", ENCODER.encode(Pull("k" * 300, b"\xab" * 300, b"\xab" * 70000, 2**33, 2**32 + 1)))
    yield ("constants", "the four replies without msgpack, joined by |",
           b"|".join([b"trans_done", b"trans_error", b"query_info", b"info_not_found"]))


def tensor_examples():
    """Yields (name, what it holds, value)."""
    counted = "float32 float64 float16 bfloat16 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool complex64 " \
              "complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
    rows = torch.arange(6).reshape(2, 3)
    for dtype in counted.split():
        yield f"tensor_{dtype}", f"0 to 5 as two rows of {dtype}", rows.to(getattr(torch, dtype))
    yield "tensor_scalar_true", "true, without a dimension", torch.tensor(True)
    yield "tensor_scalar_bf16", "1.5 as bfloat16, without a dimension", torch.tensor(1.5, dtype=torch.bfloat16)
    yield "tensor_empty", "no float32 in shape [0, 3]", torch.empty((0, 3))
    yield "tensor_transposed", "0 to 5 as two rows of float32, transposed to shape [3, 2]", rows.float().T
    yield "tensor_window", "rows 1 and 2, columns 1 to 3 of 0 to 19 in four rows of int16, transposed to shape [3, 2]", \
        torch.arange(20, dtype=torch.int16).reshape(4, 5)[1:3, 1:4].T
    yield "ndarray_f4", "1 to 4 as two rows of float32", numpy.arange(1, 5, dtype="f4").reshape(2, 2)
    yield "ndarray_i8_scalar", "7 as int64, without a dimension", numpy.array(7, dtype="i8")


def nested_examples():
    """Yields (name, what it holds, value)."""
    ints = [0, 127, 128, -1, -32, -33, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1, -(2**31), -(2**63),
            2**64 - 1]
    yield "plain", "every plain type, integers of each width, an integer as a key", {
        "none": None, "t": True, "f": False, "ints": ints, "x": 1.5, "s": "h\u00e4\u00df", "b": bytes([0, 255]),
        "l": [1, [2, []]], "layers": {24: "int key"}, "": {}}
    no, yes = torch.tensor(False), torch.tensor(True)
    yield "chunk_codes", "a talker's chunk: three codes, not finished", {
        "codes": {"audio": torch.tensor([1, 2, 3])},
        "meta": {"finished": no, "is_segment_finished": no, "left_context_size": 0}}
    ramp = (torch.arange(2048) / 256).bfloat16()
    yield "chunk_decode", "a thinker's chunk: one bfloat16 row with i/256 at i, not finished", {
        "embed": {"decode": ramp[None, :]}, "meta": {"finished": no, "is_segment_finished": no}}
    yield "chunk_finish", "the chunk that says finished", {"meta": {"finished": yes, "is_segment_finished": yes}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default=pathlib.Path(__file__).with_name("vectors.json"), type=pathlib.Path)
    output = parser.parse_args().output
    examples = list(control_examples())
    examples += [(name, holds, ENCODER.encode(value)) for name, holds, value in tensor_examples()]
    examples += [(name, holds, ENCODER.encode(value)) for name, holds, value in nested_examples()]
    document = {
        "made_with": {library.__name__: library.__version__ for library in (msgspec, numpy, torch)},
        "vectors": [{"name": name, "holds": holds, "hex": data.hex()} for name, holds, data in examples],
    }
    output.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{output}: {len(examples)} vectors")


if __name__ == "__main__":
    main()
