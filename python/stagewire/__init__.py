"""Stagewire moves tensors between the stages of an inference pipeline, each of which is a process of its own.

    talker = stagewire.Connector(stage_id=0, role="sender", zmq_port=0)
    vocoder = stagewire.Connector(stage_id=1, role="receiver", zmq_port=0,
                                  sender_host=talker.host, sender_zmq_port=talker.zmq_port)
    talker.put("0", "1", "chat-7_0", {"codes": torch.arange(8), "finished": False})
    with vocoder.get("0", "1", "chat-7_0", timeout=5) as delivery:
        payload = delivery.payload()     # its tensors are views, perhaps into the talker's memory

Importing it starts nothing, so a process may fork between that and its first Connector or IOEngine.
"""

import atexit

from . import _native
from ._native import (ChunkProcessor, ChunkTransferAdapter, Connector, Delivery, EngineDesc, EngineMemory, IOEngine,
                      MemoryDesc, PoolBuffer, Session, Tensor, Transfer, decode, encode, machine_report, parse_size,
                      set_log_level)
from .errors import (BY_CODE, Cancelled, Closed, Conflict, Corrupt, Error, Exhausted, Failed, InvalidArgument,
                     NotFound, PermissionDenied, Timeout, TooLarge, Unavailable, Unsupported)

__version__ = _native.__version__

_native.set_exceptions(BY_CODE)
atexit.register(_native.close_all)

__all__ = [
    "Cancelled", "ChunkProcessor", "ChunkTransferAdapter", "Closed", "Conflict", "Connector", "Corrupt", "Delivery",
    "EngineDesc", "EngineMemory", "Error", "Exhausted", "Failed", "IOEngine", "InvalidArgument", "MemoryDesc",
    "NotFound", "PermissionDenied", "PoolBuffer", "Session", "Tensor", "Timeout", "TooLarge", "Transfer",
    "Unavailable", "Unsupported", "decode", "encode", "machine_report", "parse_size", "set_log_level",
]
