"""Every dtype and shape, bit by bit, and the encoded form beside the real msgspec's."""

import itertools
import json
import pathlib

import pytest
import stagewire

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")
msgspec = pytest.importorskip("msgspec")

VECTORS = pathlib.Path(__file__).parents[2] / "tests" / "vectors" / "vectors.json"
SHAPES = [(1,), (7,), (3, 5), (2, 3, 4), (1, 1, 2048), (1,) * 7, ()]
TORCH = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
         "complex128"]
NUMPY = ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
         "float64", "complex64", "complex128"]
ML_DTYPES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


def random_bytes(shape, item_size, seed=1):
    count = int(numpy.prod(shape, dtype=int)) * item_size
    return numpy.random.default_rng(seed).integers(0, 256, count, dtype=numpy.uint8)


def numpy_dtype(name):
    return numpy.dtype(getattr(ml_dtypes, name)) if name in ML_DTYPES else numpy.dtype(name)


def an_array(name, shape):
    dtype = numpy_dtype(name)
    raw = random_bytes(shape, dtype.itemsize)
    return ((raw & 1) if name == "bool" else raw).view(dtype).reshape(shape)


def bits(tensor):
    """A torch tensor's or an array's bytes, row-major."""
    if isinstance(tensor, torch.Tensor):
        flat = tensor.contiguous().reshape(-1)
        return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return numpy.ascontiguousarray(tensor).tobytes()


def a_tensor(name, shape):
    raw = random_bytes(shape, torch.empty(0, dtype=getattr(torch, name)).element_size())
    raw = torch.from_numpy((raw & 1) if name == "bool" else raw)
    return raw.view(getattr(torch, name)).reshape(shape)


@pytest.fixture(scope="module")
def pair():
    with stagewire.Connector(stage_id=0, zmq_port=0, memory_pool_size=32 << 20) as sender, \
            stagewire.Connector(stage_id=1, role="receiver", zmq_port=0, memory_pool_size=32 << 20,
                                sender_host=sender.host, sender_zmq_port=sender.zmq_port) as receiver:
        yield sender, receiver


keys = itertools.count()


def handed_over(pair, data):
    sender, receiver = pair
    key = f"key_{next(keys)}"  # what was received under one before may still be looked at
    sender.put("0", "1", key, data)
    return receiver.get("0", "1", key, timeout=60)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", TORCH)
def test_R18_torch_tensors_raw_and_in_objects(pair, name, shape):
    sent = a_tensor(name, shape)
    raw = handed_over(pair, sent)
    assert raw.kind == "tensor" and raw.tensor().dtype == name and raw.tensor().shape == shape
    got = handed_over(pair, {"layers": {24: [sent]}}).payload("torch")["layers"][24][0]
    for tensor in (raw.payload("torch"), got):
        assert (tensor.dtype, tuple(tensor.shape), bits(tensor)) == (sent.dtype, shape, bits(sent))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NUMPY + ML_DTYPES)
def test_R18_numpy_arrays_raw_and_in_objects(pair, name, shape):
    sent = an_array(name, shape)
    raw = handed_over(pair, sent)
    assert raw.kind == "tensor" and raw.tensor().dtype == name and raw.tensor().shape == shape
    got = handed_over(pair, {"array": sent}).payload("numpy")["array"]
    for array in (raw.payload("numpy"), got):
        assert (array.dtype, array.shape, bits(array)) == (sent.dtype, shape, bits(sent))


def test_R18_what_torch_lacks_arrives_as_what_there_is(pair):
    sent = an_array("float8_e4m3fn", (4, 4))
    got = handed_over(pair, sent).payload("torch")
    assert got.dtype == sent.dtype and bits(got) == bits(sent)


def test_R18_packed_int4(pair):
    packed = bytes(range(8)) + b"\xff"
    for sent in (packed, bytearray(packed), memoryview(packed)):
        got = handed_over(pair, stagewire.Tensor(sent, "int4", (3, 6))).tensor()
        assert (got.dtype, got.shape, got.tobytes()) == ("int4", (3, 6), packed)


@pytest.mark.parametrize("view", [
    lambda t: t.t(), lambda t: t[::2], lambda t: t[:, 1::3], lambda t: t[1:, 2:],
    lambda t: t.unsqueeze(0).expand(3, 6, 8), lambda t: t.flip(0).t()],
    ids=["transposed", "rows", "columns", "corner", "expanded", "backwards"])
def test_R18_tensors_that_are_not_contiguous(pair, view):
    sent = view(torch.arange(48, dtype=torch.int32).reshape(6, 8))
    got = handed_over(pair, sent).payload("torch")
    assert torch.equal(got, sent)
    assert torch.equal(handed_over(pair, [sent]).payload("torch")[0], sent)


def test_R18_strided_arrays_of_numpy(pair):
    whole = numpy.arange(60, dtype="<i4").reshape(5, 12)
    for sent in (whole[::-1], whole[:, ::-2], whole.T, whole[1:3, 4:], numpy.broadcast_to(whole[0], (4, 12))):
        assert (handed_over(pair, sent).payload("numpy") == sent).all()
        assert (handed_over(pair, {"a": sent}).payload("numpy")["a"] == sent).all()


def test_R18_fields_of_records_and_other_byte_orders(pair):
    records = numpy.zeros(5, dtype=[("a", "<f4"), ("b", "u1")])
    records["a"] = numpy.arange(5)
    assert (handed_over(pair, records["a"]).payload("numpy") == numpy.arange(5)).all()
    swapped = numpy.arange(5).astype(">i4")
    assert (handed_over(pair, swapped).payload("numpy") == numpy.arange(5)).all()
    assert handed_over(pair, [swapped]).payload("numpy")[0].dtype == swapped.dtype


def test_R18_conjugated_and_negated_views(pair):
    sent = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert torch.equal(handed_over(pair, sent).payload("torch"), sent.resolve_conj())
    assert torch.equal(handed_over(pair, sent.imag).payload("torch"), sent.imag)


@pytest.mark.parametrize("name", TORCH)
def test_R18_empty_tensors_in_objects(pair, name):
    sent = torch.empty((0, 3), dtype=getattr(torch, name))
    got = handed_over(pair, {"empty": sent}).payload("torch")["empty"]
    assert (got.dtype, tuple(got.shape)) == (sent.dtype, (0, 3))
    with pytest.raises(stagewire.InvalidArgument):
        pair[0].put("0", "1", "key", sent)


def test_plain_values(pair):
    sent = {"none": None, "yes": True, "no": False, "small": -1, "large": 2**64 - 1, "negative": -(2**63), "float": 1.5,
            "text": "häß\0lich", "bytes": b"\0\xff", "list": [1, [2, []]], "map": {1: "one", "": {}}, 7: 8}
    assert handed_over(pair, sent).payload() == sent
    assert handed_over(pair, [(1, 2), bytearray(b"x"), memoryview(b"y")]).payload() == [[1, 2], b"x", b"y"]


def test_values_that_no_payload_has(pair):
    loop = []
    loop.append(loop)
    for value, error in (({"a": object()}, TypeError), ([2**64], ValueError), (loop, ValueError), ({1, 2}, TypeError),
                         (["\ud800"], UnicodeEncodeError)):
        with pytest.raises(error):
            pair[0].put("0", "1", "key", value)


# --- msgspec ---


def hook(obj):
    """As vLLM-Omni writes tensors and arrays."""
    if isinstance(obj, torch.Tensor):
        return {"__tensor__": True, "dtype": str(obj.dtype).replace("torch.", ""), "shape": list(obj.shape),
                "data": bits(obj)}
    return {"__ndarray__": True, "dtype": obj.dtype.str, "shape": list(obj.shape), "data": bits(obj)}


def objects():
    yield {"codes": {"audio": torch.arange(48)}, "meta": {"finished": torch.tensor(False), "left_context_size": 0}}
    yield {"hidden_states": {"output": a_tensor("bfloat16", (101, 2048)), "layers": {0: a_tensor("float16", (2, 3))}}}
    yield [None, True, -1, -33, 127, 128, 255, 256, 65535, 65536, 2**32, 2**63, 1.5, "é" * 40, b"x" * 300, [[]] * 20]
    yield {"array": an_array("float32", (4, 5)), "text": numpy.array(["a", "bc"]), "nothing": numpy.empty((0, 2))}
    yield {str(i): i for i in range(70000)}


@pytest.mark.parametrize("index", range(5))
def test_bytes_are_those_of_msgspec_both_ways(index):
    obj = list(objects())[index]
    theirs = msgspec.msgpack.Encoder(enc_hook=hook).encode(obj)
    assert stagewire.encode(obj) == theirs
    ours = stagewire.decode(theirs, "torch")
    assert msgspec.msgpack.Encoder(enc_hook=hook).encode(ours) == theirs
    assert msgspec.msgpack.decode(stagewire.encode(ours)) == msgspec.msgpack.decode(theirs)


def test_the_vectors_decode_and_encode_again():
    checked = 0
    for vector in json.loads(VECTORS.read_text())["vectors"]:
        if vector["name"].startswith(("query", "reply", "pull", "constants")):
            continue
        data = bytes.fromhex(vector["hex"])
        assert stagewire.encode(stagewire.decode(data, "stagewire")) == data, vector["name"]
        checked += 1
    assert checked > 0


def test_bytes_that_are_no_payload():
    for data in (b"", b"\x81", b"\xc1", stagewire.encode({"a": 1}) + b"\0",
                 stagewire.encode({"t": torch.zeros(4)}).replace(b"float32", b"float99")):
        with pytest.raises((stagewire.Corrupt, stagewire.Unsupported)):
            stagewire.decode(data)
