"""vLLM-Omni's `extra` of a connector as stagewire's settings: its spellings, its defaults, and the endpoints that it
injects or leaves out."""

import dataclasses
import difflib
import logging
import os

logger = logging.getLogger("vllm_omni.stagewire")

ROLES = ("sender", "receiver", "dual")
DEFAULT_PORT = 50051
DEFAULT_POOL_SIZE = 1 << 30

# Read by a backend, and handed to it as they are.
BACKEND_KEYS = ("device_name", "gid_index", "qp_per_transfer", "post_batch_size", "service_level", "traffic_class",
                "path_mtu", "rdma_retry_count", "rdma_ack_timeout", "rdma_recovery_timeout_ms", "rdma_max_piece")
# Handed to stagewire.Connector under their own names.
CONNECTOR_KEYS = ("buffer_ttl_s", "original_timeout_s", "lease_share", "route", "secret_key", "fault_spec")
# Read here, by others (the codec's), or of no use without the original's engine.
OTHER_KEYS = ("stage_id", "role", "host", "zmq_port", "backend_type", "memory_pool_size", "memory_pool_device",
              "sender_host", "sender_zmq_port", "from_stage", "to_stage", "put_timeout_s", "received",
              "codec_chunk_frames", "codec_left_context_frames", "initial_codec_chunk_frames",
              "xgmi_num_streams", "xgmi_num_events", "num_worker_threads", "extra", "rank_mapping",
              "recv_rank_mapping", "send_rank_mapping", "outgoing", "type")
KNOWN_KEYS = BACKEND_KEYS + CONNECTOR_KEYS + OTHER_KEYS


@dataclasses.dataclass
class Settings:
    """`connector`: keyword arguments of stagewire.Connector. The rest is the drop-in's own."""

    connector: dict
    stage_id: object
    role: str
    host: str
    backend_type: str
    pool_device: str
    put_timeout_s: float
    copy_received: bool
    derived_port: bool  # nobody named the port: it follows from the neighbour's, and is taken only if it is free


def settings_of(extra, *, port_is_base=False):
    """Raises ValueError for what no connector can be made of. `port_is_base`: nobody has added the stage to
    `zmq_port` yet (a connector name that vLLM-Omni injects nothing for)."""
    _warn_of_unknown(extra)
    role = str(extra.get("role", "sender")).lower()
    if role == "auto":
        role = "dual"
    if role not in ROLES:
        raise ValueError(f"Invalid role={role!r}: expected one of {', '.join(ROLES)}")
    stage_id = extra.get("stage_id", -1)
    host = str(extra.get("host", "127.0.0.1"))
    host = "auto" if host.lower() == "auto" else host
    backend_type, pool_device = _backend(extra)
    port, derived = _own_port(extra, role, stage_id, port_is_base)
    sender_host, sender_port = _sender(extra, role, stage_id, port_is_base)
    settings = {key: str(extra[key]) for key in BACKEND_KEYS if extra.get(key) not in (None, "")}
    connector = {
        "stage_id": stage_id if isinstance(stage_id, int) else -1,
        "role": role,
        "host": host,
        "zmq_port": port,
        "backend_type": backend_type,
        "backend_settings": settings,
        "memory_pool_size": _size(extra.get("memory_pool_size", DEFAULT_POOL_SIZE)),
        "memory_pool_device": "cpu",
        "sender_host": sender_host,
        "sender_zmq_port": sender_port,
        **{key: extra[key] for key in CONNECTOR_KEYS if extra.get(key) is not None},
    }
    received = str(extra.get("received", "view")).lower()
    if received not in ("view", "copy"):
        raise ValueError(f"Invalid received={received!r}: expected view or copy")
    return Settings(connector, stage_id, role, host, backend_type, pool_device,
                    float(extra.get("put_timeout_s", 5.0)), received == "copy", derived)


def integer(value, name):
    """An int, also of a text such as "$PORT" or "${PORT:-50051}", which vLLM-Omni allows in ports."""
    if isinstance(value, bool):
        raise ValueError(f"{name}: {value!r} is no number")
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("$"):
            reference, _, default = text.lstrip("$").strip("{}").partition(":-")
            text = os.environ.get(reference, default)
        value = text
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {value!r} is no number") from None


def stage_number(value):
    """A stage's number, or None for one that has none."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _backend(extra):
    # The original's default is RDMA or nothing; ours is what both ends have. Both of its names for a GPU's links come
    # with a pool on the GPU, which this version does not have: chunks are in host memory by the time they are put.
    backend_type = str(extra.get("backend_type", "auto")).lower()
    pool_device = str(extra.get("memory_pool_device", "cpu"))
    if backend_type not in ("auto", "shm", "rdma", "xgmi", "cuda_ipc", "ucx"):
        raise ValueError(f"Invalid backend_type={backend_type!r}: expected one of auto, shm, rdma, xgmi")
    if backend_type in ("xgmi", "cuda_ipc") or pool_device != "cpu":
        logger.warning("backend_type %s with memory_pool_device %s: this version of stagewire keeps its pool in host "
                       "memory and takes the best way between it and the peer's (backend_type auto)", backend_type,
                       pool_device)
        backend_type = "auto" if backend_type in ("xgmi", "cuda_ipc") else backend_type
    return backend_type, "cpu"


def _own_port(extra, role, stage_id, port_is_base):
    """Where this stage listens, and whether that is only derived."""
    stage = stage_number(stage_id)
    if role != "receiver":
        port = integer(extra.get("zmq_port", DEFAULT_PORT), "zmq_port")
        return (port + max(stage or 0, 0) if port_is_base and port else port), False
    # A receiver that is a middle stage has to be found by the next one, at the port that follows the port it reads
    # from; vLLM-Omni names it to the next stage but not to this one. The last stage gets one that nobody asks for.
    upstream, source = extra.get("sender_zmq_port"), stage_number(extra.get("from_stage"))
    if port_is_base:
        base = integer(extra.get("zmq_port", DEFAULT_PORT), "zmq_port")
        return (base + max(stage or 0, 0) if base else 0), True
    if stage is not None and stage > 0 and upstream and "zmq_port" not in extra:
        return integer(upstream, "sender_zmq_port") + stage - (source if source is not None else stage - 1), True
    return 0, True


def _sender(extra, role, stage_id, port_is_base):
    """Where the stage before listens: ("", 0) when that is not known. "auto" is this host."""
    host = extra.get("sender_host") or "auto"
    port = extra.get("sender_zmq_port")
    stage = stage_number(stage_id)
    if port is None and role != "sender" and stage is not None and stage > 0 and "zmq_port" in extra:
        base = integer(extra["zmq_port"], "zmq_port")
        shifted = role == "dual" and not port_is_base  # by vLLM-Omni, to this stage's own
        port = base - 1 if shifted else base + stage - 1
    if port is None:
        return "", 0
    return ("auto" if str(host).lower() == "auto" else str(host)), integer(port, "sender_zmq_port")


def _size(value):
    from stagewire import parse_size
    return value if isinstance(value, int) else parse_size(str(value))


def _warn_of_unknown(extra):
    for key in extra:
        if key not in KNOWN_KEYS:
            near = difflib.get_close_matches(str(key), KNOWN_KEYS, 1)
            logger.warning("connector key %s is not known and not used%s", key,
                           f"; did you mean {near[0]}?" if near else "")
