"""MoriTransferEngineConnector as vLLM-Omni knows it, over stagewire.Connector.

The names and their spelling are vLLM-Omni's: this is its contract. "Not there" is None or False with a log line, as its
callers expect; an exception says that the call itself was wrong.
"""

import logging
import os
import time

import stagewire

from .base import connector_base
from .managed_buffer import ManagedBuffer
from .payloads import NotPlain, needs_vllm_omni, plain, vllm_omni_serializer
from .pending import Pending
from .settings import settings_of

logger = logging.getLogger("vllm_omni.stagewire")

_NOT_THERE = (stagewire.NotFound, stagewire.Timeout, stagewire.Cancelled, stagewire.Unavailable)


class MoriTransferEngineConnector(connector_base()):
    """One stage's end of its edges. Every method may be called from any thread."""

    supports_raw_data = True
    _port_is_base = False

    def __init__(self, config):
        self._closed = True  # until there is something to close
        self.config = config
        settings = settings_of(config, port_is_base=self._port_is_base)
        self.stage_id = settings.stage_id
        self.role = settings.role
        self.backend_type = settings.backend_type
        self.device_name = config.get("device_name", "") or os.environ.get("MORI_RDMA_DEVICES", "")
        self.pool_device = settings.pool_device
        self.pool_size = settings.connector["memory_pool_size"]
        self.can_put = True
        self._put_timeout = settings.put_timeout_s
        self._copy_received = settings.copy_received
        self._port_problem = None
        self._pending = Pending()
        self._wakeups_wanted = False
        self._connector = self._open(settings)
        self._closed = False
        self.host = self._connector.host
        self.zmq_port = self._connector.zmq_port
        self.engine_key = self._connector.engine_key
        self.sender_host = settings.connector["sender_host"] or None
        self.sender_zmq_port = settings.connector["sender_zmq_port"] or None
        if self.sender_host == "auto":
            self.sender_host = self.host
        if self.sender_host:
            self._connector.update_sender_info(self.sender_host, self.sender_zmq_port)
        logger.info("stage %s: stagewire %s as %s at %s:%s, pool of %d bytes, upstream %s", self.stage_id,
                    stagewire.__version__, self.role, self.host, self.zmq_port, self.pool_size,
                    f"{self.sender_host}:{self.sender_zmq_port}" if self.sender_host else "not known yet")

    def _open(self, settings):
        # The sender is given below, once this host's own address is known.
        options = {**settings.connector, "sender_host": "", "sender_zmq_port": 0}
        try:
            return stagewire.Connector(**options)
        except stagewire.Conflict as error:
            if not settings.derived_port:
                raise RuntimeError(f"{type(self).__name__} failed to bind {settings.host}:{options['zmq_port']}: "
                                   f"{error}") from error
            self._port_problem = str(error)
        except stagewire.InvalidArgument as error:
            raise ValueError(str(error)) from error
        logger.info("stage %s: %s; another port serves, unless this stage has a next one that looks there",
                    self.stage_id, self._port_problem)
        return stagewire.Connector(**{**options, "zmq_port": 0})

    # --- Sending ---

    def put(self, from_stage, to_stage, put_key, data):
        """Publishes: (True, bytes, metadata), or (False, 0, None) and a log line that says why not."""
        self._check_open("put")
        key = self._make_key(put_key, from_stage, to_stage)
        if self._port_problem is not None:
            logger.error("put of %s: the next stage cannot find this one: %s", key, self._port_problem)
            return False, 0, None
        if not self._has_bytes(data):
            return False, 0, None
        try:
            metadata = self._publish(str(from_stage), str(to_stage), str(put_key), data)
        except stagewire.Closed:
            raise RuntimeError(f"Cannot put: {type(self).__name__} is closed") from None
        except Exception as error:  # whatever the payload is: its sender's loop goes on with the next
            logger.error("put of %s: %s: %s", key, type(error).__name__, error)
            return False, 0, None
        return True, metadata["data_size"], metadata

    @staticmethod
    def _has_bytes(data):
        if isinstance(data, bytes):
            return len(data) > 0
        count = getattr(data, "numel", None)
        return not (callable(count) and count() == 0)

    def _publish(self, from_stage, to_stage, key, data):
        connector, wait = self._connector, self._put_timeout
        data = _raw_payload(data)
        if isinstance(data, (bytes, stagewire.PoolBuffer)) or _is_tensor(data):
            return connector.put(from_stage, to_stage, key, data, timeout=wait)
        try:
            return connector.put(from_stage, to_stage, key, plain(data), timeout=wait, as_object=True)
        except NotPlain:
            serializer = vllm_omni_serializer()
            if serializer is None:
                raise
            return connector.put_encoded(from_stage, to_stage, key, serializer.serialize(data), timeout=wait)

    def allocate(self, size):
        """A ManagedBuffer of the pool: fill it and put it, and its bytes are not copied."""
        self._check_open("allocate")
        return ManagedBuffer(self._connector.allocate(size, timeout=self._put_timeout))

    def cleanup(self, request_id, from_stage=None, to_stage=None):
        """Drops what was put under the key and not taken. Without stages, `request_id` is the internal key."""
        if (from_stage is None) != (to_stage is None):
            raise ValueError("cleanup: give from_stage and to_stage, or neither")
        if self._closed:
            return
        stages = () if from_stage is None else (str(from_stage), str(to_stage))
        try:
            self._connector.cleanup(str(request_id), *stages)
        except stagewire.Error as error:
            logger.debug("cleanup of %s: %s", request_id, error)

    # --- Receiving ---

    def get(self, from_stage, to_stage, get_key, metadata=None):
        """(object, bytes), or None when it is not there (yet); whoever polls is answered from what is known here."""
        return self._get(from_stage, to_stage, get_key, metadata, None)

    def get_with_deadline(self, from_stage, to_stage, get_key, metadata=None, *, deadline):
        """get() that waits until the deadline (of time.monotonic()), without polling."""
        return self._get(from_stage, to_stage, get_key, metadata, deadline)

    def abandon_get(self, get_key):
        """The key that get() did not find is not waited for any more. It may be asked for again: so the sender is not
        told, who would drop what is on its way, and what comes for nobody ends with its time to live."""
        self._pending.discard(str(get_key))

    def get_wakeup_generation(self):
        """Changes whenever something that get() did not find has come: see wait_for_change()."""
        self._wakeups_wanted = True
        return self._connector.changes

    def wait_for_change(self, generation=None, timeout=None):
        """Waits until get_wakeup_generation() is not `generation` any more, `timeout` seconds at most; returns it."""
        self._wakeups_wanted = True
        seen = self._connector.changes if generation is None else generation
        return self._connector.wait_for_change(seen, float("inf") if timeout is None else timeout)

    def reap_consumed(self):
        """What has been taken is given back as soon as the receiver lets go of it: there is nothing to do."""

    def _get(self, from_stage, to_stage, get_key, metadata, deadline):
        self._check_open("get")
        names = (str(from_stage), str(to_stage), str(get_key))
        if not metadata and not self._knows_sender():
            raise RuntimeError("get(metadata=None) requires sender info. Call update_sender_info() first.")
        if metadata and not self._is_usable(metadata, names):
            return None
        try:
            delivery = self._look(names, metadata or None, deadline)
        except stagewire.Closed:
            raise RuntimeError(f"Cannot get: {type(self).__name__} is closed") from None
        except _NOT_THERE as error:
            logger.debug("get of %s: %s", names[2], error)
            delivery = None
        except stagewire.Error as error:
            logger.error("get of %s: %s", self._make_key(get_key, from_stage, to_stage), error)
            return None
        if delivery is None:
            self._not_there(names, metadata)
            return None
        self._pending.discard(names[2])
        return self._unpacked(delivery, names)

    def _look(self, names, metadata, deadline):
        if deadline is None:
            return self._connector.look(*names, metadata=metadata)
        wait = max(0.0, deadline - time.monotonic())
        return self._connector.get(*names, timeout=wait, metadata=metadata)

    def _not_there(self, names, metadata):
        if self._wakeups_wanted and not metadata and self._pending.add(names[2]):
            self._connector.watch(*names, notify=True)

    def _unpacked(self, delivery, names):
        size = delivery.nbytes
        if delivery.kind != "object":
            return ManagedBuffer(delivery), size
        try:
            return self._object(delivery), size
        except Exception as error:  # whatever came: the receiver's loop goes on with the next
            logger.error("get of %s: %s: %s", names[2], type(error).__name__, error)
            return None

    def _object(self, delivery):
        raw = delivery.raw.tobytes() if self._copy_received else None
        try:
            decoded = stagewire.decode(bytearray(raw)) if raw is not None else delivery.object()
            if not needs_vllm_omni(decoded):
                return decoded
        except stagewire.Error:
            if vllm_omni_serializer() is None:
                raise
        serializer = vllm_omni_serializer()
        return decoded if serializer is None else serializer.deserialize(raw or delivery.raw.tobytes())

    def _is_usable(self, metadata, names):
        host, port = metadata.get("source_host"), metadata.get("source_port")
        if host and port and str(host).lower() != "auto":
            return True
        logger.error("get of %s: metadata names no sender: source_host %r, source_port %r", names[2], host, port)
        return False

    def _knows_sender(self):
        host, port = self.sender_host, self.sender_zmq_port
        return bool(host and port) and str(host).lower() != "auto"

    # --- Both ---

    def update_sender_info(self, sender_host, sender_zmq_port, sender_rank=None):
        """Where the sending stage listens. vLLM-Omni's managers name a rank, too, which is not needed here."""
        del sender_rank
        self.sender_host, self.sender_zmq_port = sender_host, sender_zmq_port
        if self._closed or not self._knows_sender():
            return
        self._connector.update_sender_info(str(sender_host), int(sender_zmq_port))

    def get_connection_info(self):
        return {"host": self.host, "zmq_port": self.zmq_port, "engine_key": self.engine_key, "can_put": self.can_put}

    def health(self):
        """vLLM-Omni's keys, and under "stagewire" all that there is."""
        if self._closed:
            return {"status": "unhealthy", "error": "Connector is closed"}
        health = self._connector.health()
        return {"status": "healthy", "host": self.host, "pool_device": self.pool_device, "pool_size": self.pool_size,
                "engine_key": self.engine_key, **_metrics(health), "stagewire": health}

    @property
    def _metrics(self):
        return _metrics(self._connector.health())

    def close(self):
        """Ends everything that waits. Idempotent, and safe on an object whose construction failed."""
        if getattr(self, "_closed", True):
            return
        self._closed = True
        self._connector.close()

    def _check_open(self, call):
        if self._closed:
            raise RuntimeError(f"Cannot {call}: {type(self).__name__} is closed")


class StagewireConnector(MoriTransferEngineConnector):
    """The same under a name of its own. vLLM-Omni injects no ports for it: `zmq_port` is the same in all stages, each
    listens at that number plus its own, and finds the stage before at one less."""

    _port_is_base = True


def _metrics(health):
    return {"puts": health["puts"], "gets": health["gets"],
            "bytes_transferred": health["bytes_put"] + health["bytes_got"], "errors": health["errors"],
            "timeouts": health["timeouts"]}


def _raw_payload(data):
    """What of a ManagedBuffer, ours or vLLM-Omni's, is put."""
    if isinstance(data, ManagedBuffer):
        block = data.take()
        return block if block is not None else data.tensor
    if type(data).__name__ == "ManagedBuffer" and hasattr(data, "pool_tensor"):
        return data.tensor
    return data


def _is_tensor(data):
    kind = type(data)
    return isinstance(data, stagewire.Tensor) or (hasattr(kind, "data_ptr") and hasattr(kind, "numel"))
