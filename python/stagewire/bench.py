"""How long a dictionary with a tensor takes from one process's hands into another's.

The yardstick is what vLLM-Omni's users have on one host without a transfer engine: the dictionary is serialised with
msgspec, copied into a named shared-memory segment that is made for it, the segment's name is sent along, and the
receiver maps it, copies it out, decodes it and unlinks it. Latency is from the call that sends to the dictionary in the
receiver's hands; both processes read the same clock.
"""

import json
import multiprocessing
import os
import statistics
import sys
import time
from multiprocessing import shared_memory

import stagewire

# The aims: how many times better than the yardstick, in latency up to 1 MiB and in throughput above.
AIMS = {4 << 10: 1.5, 64 << 10: 10, 1 << 20: 20}
AIM_ABOVE = 50
WARM_UP = 3


def main(arguments):
    try:
        import msgspec  # noqa: F401
        import numpy  # noqa: F401
    except ImportError as error:
        print(f"the yardstick needs it: {error}: pip install msgspec numpy", file=sys.stderr)
        return 2
    sizes = [_size(text) for text in arguments.sizes.split(",")]
    rows = []
    print(f"{'payload':>9} {'msgspec + segment':>20} {'put copies':>20} {'':>8} {'in the pool':>20} {'':>8} {'aim':>7}")
    for size in sizes:
        rounds = arguments.rounds or max(8, min(1000, (512 << 20) // size))
        rows.append(_row(size, rounds))
        _print(rows[-1])
    if arguments.json:
        text = json.dumps({"version": stagewire.__version__, "cpus": os.cpu_count(), "rows": rows}, indent=2)
        if arguments.json == "-":
            print(text)
        else:
            with open(arguments.json, "w") as file:
                file.write(text + "\n")
    return 0


def _size(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1].upper()] if text[-1].upper() in units else int(text)


def _row(size, rounds):
    row = {"payload_bytes": size, "rounds": rounds}
    for name, sender, receiver in (("segment", _SegmentSender, _receive_segments), ("copied", _Copying, _receive_ours),
                                   ("in_pool", _InPool, _receive_ours)):
        latencies = _measure(sender, receiver, size, rounds)
        row[f"{name}_us"] = statistics.median(latencies) / 1000
        row[f"{name}_p90_us"] = sorted(latencies)[len(latencies) * 9 // 10] / 1000
        row[f"{name}_gb_per_s"] = size / statistics.fmean(latencies)
    row["aim"] = AIMS.get(size, AIM_ABOVE if size > max(AIMS) else None)
    row["aim_is"] = "latency" if size <= max(AIMS) else "throughput"
    for name in ("copied", "in_pool"):
        row[f"{name}_ratio"] = (row["segment_us"] / row[f"{name}_us"] if row["aim_is"] == "latency"
                                else row[f"{name}_gb_per_s"] / row["segment_gb_per_s"])
    return row


def _print(row):
    latency = row["aim_is"] == "latency"

    def shown(name):
        return f"{row[name + '_us']:.0f} us" if latency else f"{row[name + '_gb_per_s']:.2f} GB/s"

    size = row["payload_bytes"]
    payload = f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
    aim = "" if row["aim"] is None else f"{row['aim']:g}x"
    print(f"{payload:>9} {shown('segment'):>20} {shown('copied'):>20} {row['copied_ratio']:>7.1f}x "
          f"{shown('in_pool'):>20} {row['in_pool_ratio']:>7.1f}x {aim:>7}", flush=True)


def _measure(sender_class, receive, size, rounds):
    """Nanoseconds of each round, the first few left out."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    sender = sender_class(size)
    process = context.Process(target=receive, args=(theirs, sender.address, rounds + WARM_UP), daemon=True)
    process.start()
    theirs.close()
    latencies = []
    ours.recv()
    for index in range(rounds + WARM_UP):
        sender.prepare(index)
        started = time.monotonic_ns()
        sender.send(index, ours)
        latencies.append(ours.recv() - started)
    process.join()
    sender.close()
    return latencies[WARM_UP:]


def _payload(size):
    import numpy
    return {"hidden": numpy.zeros(size, numpy.uint8), "meta": {"finished": False, "chunk": 7}}


# --- The yardstick ---


def _hook(array):
    return {"__ndarray__": True, "dtype": array.dtype.str, "shape": list(array.shape), "data": array.tobytes()}


def _rebuilt(obj):
    import numpy
    if isinstance(obj, dict):
        if obj.get("__ndarray__"):
            return numpy.frombuffer(bytearray(obj["data"]), obj["dtype"]).reshape(obj["shape"])
        return {key: _rebuilt(value) for key, value in obj.items()}
    return obj


class _SegmentSender:
    address = None

    def __init__(self, size):
        import msgspec
        self.payload = _payload(size)
        self.encoder = msgspec.msgpack.Encoder(enc_hook=_hook)

    def prepare(self, index):
        del index

    def send(self, index, pipe):
        del index
        data = self.encoder.encode(self.payload)
        segment = shared_memory.SharedMemory(create=True, size=len(data))
        segment.buf[:len(data)] = data
        segment.close()
        pipe.send((segment.name, len(data)))

    def close(self):
        pass


def _receive_segments(pipe, address, rounds):
    import msgspec
    del address
    decoder = msgspec.msgpack.Decoder()
    pipe.send("ready")
    for _ in range(rounds):
        name, size = pipe.recv()
        segment = shared_memory.SharedMemory(name=name)
        payload = _rebuilt(decoder.decode(bytes(segment.buf[:size])))
        segment.close()
        segment.unlink()
        assert not payload["hidden"][-1]
        pipe.send(time.monotonic_ns())
        del payload


# --- Ours ---


class _Copying:
    """The tensor is the producer's own: put() encodes the payload into the pool."""

    def __init__(self, size):
        stagewire.set_log_level("warning")
        pool = 4 * size + (16 << 20)
        self.connector = stagewire.Connector(stage_id=0, role="sender", zmq_port=0, memory_pool_size=pool)
        self.payload = _payload(size)
        self.address = (self.connector.host, self.connector.zmq_port)

    def prepare(self, index):
        del index

    def send(self, index, pipe):
        del pipe
        self.connector.put("0", "1", f"key_{index}", self.payload, timeout=60)

    def close(self):
        self.connector.close()


class _InPool(_Copying):
    """The producer has written its tensor where it is sent from."""

    def prepare(self, index):
        self.block, views = self.connector.prepare(self.payload, tensors="numpy", timeout=60)

    def send(self, index, pipe):
        del pipe
        self.connector.put("0", "1", f"key_{index}", self.block)


def _receive_ours(pipe, address, rounds):
    import numpy  # noqa: F401
    stagewire.set_log_level("warning")
    with stagewire.Connector(stage_id=1, role="receiver", zmq_port=0, memory_pool_size=16 << 20,
                             sender_host=address[0], sender_zmq_port=address[1]) as connector:
        connector.watch("0", "1", "key_0")
        pipe.send("ready")
        for index in range(rounds):
            payload = connector.get("0", "1", f"key_{index}", timeout=60).payload("numpy")
            assert not payload["hidden"][-1]
            now = time.monotonic_ns()
            if index + 1 < rounds:
                connector.watch("0", "1", f"key_{index + 1}")
            pipe.send(now)
            del payload
