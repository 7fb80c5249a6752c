"""MORI-IO's Python modules over stagewire's engine, as far as vLLM-Omni's original connector and vLLM's MoRI-IO KV
connector use them, so that these run unmodified where MORI cannot.

    import stagewire.compat.mori        # `mori`, `mori.io` and `mori.cpp` are then these

A real `mori` that has been imported is left alone. STAGEWIRE_COMPAT_MORI=1 has stagewire's plugin import this.

Memory: a tensor that is registered is moved, in place, into memory that other processes of this host can share; views
of it that were made before keep the old memory. Only tensors in host memory can be registered.
"""

import enum
import sys
import types

import stagewire
from stagewire import EngineDesc, MemoryDesc

# Errors of a transfer that the caller made, by MORI's code; all others are the data plane's.
_BAD_ARGUMENTS = (stagewire.InvalidArgument, stagewire.TooLarge, stagewire.NotFound, stagewire.PermissionDenied)


class StatusCode(enum.IntEnum):
    SUCCESS = 0
    INIT = 1
    IN_PROGRESS = 2
    ERR_INVALID_ARGS = 11
    ERR_NOT_FOUND = 12
    ERR_RDMA_OP = 13
    ERR_BAD_STATE = 14
    ERR_GPU_OP = 15


class BackendType(enum.IntEnum):
    Unknown = 0
    XGMI = 1
    RDMA = 2
    TCP = 3
    FABRIC = 4


class MemoryLocationType(enum.IntEnum):
    Unknown = 0
    CPU = 1
    GPU = 2


class PollCqMode(enum.IntEnum):
    POLLING = 0
    EVENT = 1


class IOEngineConfig:
    def __init__(self, host="", port=0):
        self.host, self.port = host, port


class RdmaBackendConfig:
    def __init__(self, qp_per_transfer=1, post_batch_size=-1, num_worker_threads=-1, poll_cq_mode=PollCqMode.POLLING,
                 enable_notification=True, notif_per_qp=1024, enable_transfer_chunking=False, chunk_bytes=65536,
                 max_chunks_per_transfer=64, num_nics_per_transfer=1):
        vars(self).update({name: value for name, value in locals().items() if name != "self"})


class XgmiBackendConfig:
    def __init__(self, num_streams=64, num_events=64):
        self.num_streams, self.num_events = num_streams, num_events


class FabricBackendConfig(XgmiBackendConfig):
    pass


class TransferStatus:
    """One transfer. Fresh ones, of nobody's transfer, stay INIT."""

    def __init__(self, transfer=None, error=None):
        self._transfer = transfer
        self._code = StatusCode.INIT if error is None else _code_of(error)
        self._message = "" if error is None else str(error)

    def Code(self):
        return self._wait(0)

    def CodeUint32(self):
        return int(self.Code())

    def Message(self):
        self.Code()
        return self._message

    def Init(self):
        return self.Code() == StatusCode.INIT

    def InProgress(self):
        return self.Code() == StatusCode.IN_PROGRESS

    def Succeeded(self):
        return self.Code() == StatusCode.SUCCESS

    def Failed(self):
        return self.Code() > 10

    def Wait(self):
        return self._wait(float("inf"))

    def WaitFor(self, timeout_ms=-1):
        return self._wait(float("inf") if timeout_ms < 0 else timeout_ms / 1000)

    def _wait(self, seconds):
        if self._transfer is None:
            return self._code
        try:
            self._transfer.wait(seconds)
            self._code = StatusCode.SUCCESS
        except stagewire.Error as error:
            if self._transfer.state == "pending":
                return StatusCode.IN_PROGRESS
            self._code, self._message = _code_of(error), str(error)
        self._transfer = None
        return self._code


def _code_of(error):
    if isinstance(error, _BAD_ARGUMENTS):
        return StatusCode.ERR_INVALID_ARGS
    return StatusCode.ERR_BAD_STATE if isinstance(error, stagewire.Closed) else StatusCode.ERR_RDMA_OP


class IOEngine:
    def __init__(self, key, config):
        self._engine = stagewire.IOEngine(key=key, host=config.host or "auto", port=config.port)
        self._notify = True
        self._memory = {}  # what registered tensors were moved into

    def get_engine_desc(self):
        return self._engine.desc

    def create_backend(self, type, config=None):
        """The engine has its backends already, whichever this machine can use."""
        if type == BackendType.TCP:
            raise NotImplementedError("MORI-IO has no TCP backend, and so has this")
        self._notify = getattr(config, "enable_notification", True)

    def remove_backend(self, type):
        del type

    def register_remote_engine(self, desc):
        self._engine.register_remote_engine(desc)

    def deregister_remote_engine(self, desc):
        self._engine.deregister_remote_engine(desc)

    def register_torch_tensor(self, tensor):
        if tensor.device.type != "cpu":
            raise stagewire.Unsupported(f"a tensor on {tensor.device}: this engine has host memory only")
        if not tensor.is_contiguous():
            raise stagewire.InvalidArgument("only contiguous tensors can be registered")
        size = tensor.numel() * tensor.element_size()
        memory = self._engine.allocate(size, "remote_read_write")  # whole pages
        moved = memory.raw.torch()[:size].view(tensor.dtype).reshape(tensor.shape)
        moved.copy_(tensor)
        tensor.set_(moved)
        self._memory[memory.desc.id] = memory
        return memory.desc

    def deregister_memory(self, desc):
        # The tensor keeps the memory itself, which is deregistered with the last view of it.
        self._memory.pop(desc.id, None)

    def allocate_transfer_uid(self):
        return self._engine.allocate_transfer_id()

    def read(self, local, local_offset, remote, remote_offset, size, uid):
        return self._status(self._engine.read, local, local_offset, remote, remote_offset, size, uid)

    def write(self, local, local_offset, remote, remote_offset, size, uid):
        return self._status(self._engine.write, local, local_offset, remote, remote_offset, size, uid)

    def batch_read(self, *lists):
        return self._batch(self._engine.batch_read, *lists)

    def batch_write(self, *lists):
        return self._batch(self._engine.batch_write, *lists)

    def create_session(self, local, remote):
        try:
            return IOEngineSession(self, self._engine.create_session(local, remote))
        except stagewire.Error:
            return None

    def pop_inbound_transfer_status(self, key, uid):
        if not self._engine.pop_inbound(key, uid):
            return None
        status = TransferStatus()
        status._code = StatusCode.SUCCESS
        return status

    def wait_all(self, statuses, timeout_ms=-1):
        codes = [status.WaitFor(timeout_ms) for status in statuses]
        return next((code for code in codes if code != StatusCode.SUCCESS), StatusCode.SUCCESS)

    def _batch(self, call, locals_, local_offsets, remotes, remote_offsets, sizes, uids):
        rows = zip(locals_, remotes, local_offsets, remote_offsets, sizes, uids, strict=True)
        return [self._status(call, local, remote, list(zip(*pieces, strict=True)), uid)
                for local, remote, *pieces, uid in rows]

    def _status(self, call, *arguments):
        *arguments, uid = arguments
        try:
            return TransferStatus(call(*arguments, id=uid, notify=self._notify))
        except stagewire.Error as error:
            return TransferStatus(error=error)


class IOEngineSession:
    def __init__(self, engine, session):
        self._engine, self._session = engine, session

    def allocate_transfer_uid(self):
        return self._engine.allocate_transfer_uid()

    def read(self, local_offset, remote_offset, size, uid):
        return self._engine._status(self._session.read, [(local_offset, remote_offset, size)], uid)

    def write(self, local_offset, remote_offset, size, uid):
        return self._engine._status(self._session.write, [(local_offset, remote_offset, size)], uid)

    def batch_read(self, local_offsets, remote_offsets, sizes, uid):
        pieces = list(zip(local_offsets, remote_offsets, sizes, strict=True))
        return self._engine._status(self._session.read, pieces, uid)

    def batch_write(self, local_offsets, remote_offsets, sizes, uid):
        pieces = list(zip(local_offsets, remote_offsets, sizes, strict=True))
        return self._engine._status(self._session.write, pieces, uid)

    def alive(self):
        return self._session.alive


def set_log_level(level):
    stagewire.set_log_level({"trace": "debug", "warn": "warning", "critical": "error"}.get(level, level))


def install():
    """Puts `mori`, `mori.io` and `mori.cpp` into sys.modules, unless a real one is there. Idempotent."""
    known = sys.modules.get("mori")
    if known is not None and getattr(known, "stagewire", None) is None:
        return False
    names = (BackendType, EngineDesc, FabricBackendConfig, IOEngine, IOEngineConfig, IOEngineSession, MemoryDesc,
             MemoryLocationType, PollCqMode, RdmaBackendConfig, StatusCode, TransferStatus, XgmiBackendConfig)
    root = types.ModuleType("mori")
    root.__path__, root.stagewire = [], stagewire
    for child in ("io", "cpp"):
        module = types.ModuleType(f"mori.{child}")
        vars(module).update({name.__name__: name for name in names}, set_log_level=set_log_level)
        setattr(root, child, module)
        sys.modules[f"mori.{child}"] = module
    sys.modules["mori"] = root
    return True


install()
