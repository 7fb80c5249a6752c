"""Which objects our own encoder writes, and which are vLLM-Omni's serializer's.

Both write the same form. Ours writes it straight into the pool; vLLM-Omni's knows its own classes (RequestOutput,
images), and rebuilds them on the other side.
"""

import dataclasses

_REQUEST_OUTPUT = frozenset(("request_id", "prompt", "prompt_token_ids", "outputs", "finished"))
_COMPLETION_OUTPUT = frozenset(("index", "text", "token_ids", "finish_reason"))
_PLAIN = (type(None), bool, int, float, str, bytes, bytearray, memoryview)


class NotPlain(TypeError):
    """The object has parts that only vLLM-Omni's serializer writes."""


def plain(obj):
    """The object in dicts and lists, with its tensors and arrays as they are. Raises NotPlain."""
    if isinstance(obj, _PLAIN) or _is_array(obj):
        return obj
    if isinstance(obj, dict):
        return {key: plain(value) for key, value in obj.items()}
    if isinstance(obj, (list, tuple)):
        return [plain(item) for item in obj]
    if hasattr(obj, "__struct_fields__"):
        return _struct(obj)
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type) and not _is_vllm_output(obj):
        return {field.name: plain(getattr(obj, field.name)) for field in dataclasses.fields(obj)}
    raise NotPlain(f"{type(obj).__name__} is no plain payload")


def needs_vllm_omni(decoded):
    """vLLM-Omni's serializer would rebuild something of its own from this."""
    if isinstance(decoded, dict):
        if decoded.get("__pil_image__") is True:
            return True
        keys = decoded.keys()
        if "finished" in keys and ("final_output_type" in keys or "images" in keys):
            return True
        if _REQUEST_OUTPUT <= keys or _COMPLETION_OUTPUT <= keys:
            return True
        return any(needs_vllm_omni(value) for value in decoded.values())
    if isinstance(decoded, list):
        return any(needs_vllm_omni(item) for item in decoded if isinstance(item, (dict, list)))
    return False


def vllm_omni_serializer():
    """vLLM-Omni's OmniSerializer, or None where it cannot be imported."""
    try:
        from vllm_omni.distributed.omni_connectors.utils.serialization import OmniSerializer
    except ImportError:
        return None
    return OmniSerializer


def _is_array(obj):
    kind = type(obj)
    return hasattr(kind, "__dlpack__") or (kind.__module__ == "numpy" and kind.__name__ == "ndarray")


def _is_vllm_output(obj):
    return any(kind.__module__.startswith("vllm") and kind.__name__.endswith("Output") for kind in type(obj).__mro__)


def _struct(obj):
    """A msgspec.Struct as msgspec writes it: a map in the order of its fields, defaults left out where it says so."""
    config = obj.__struct_config__
    if config.array_like or config.tag is not None:
        raise NotPlain(f"{type(obj).__name__} is tagged or written as an array")
    names = obj.__struct_encode_fields__
    fields = obj.__struct_fields__
    defaults = obj.__struct_defaults__
    first_default = len(fields) - len(defaults)
    result = {}
    for position, (name, field) in enumerate(zip(names, fields)):
        value = getattr(obj, field)
        has_default = position >= first_default
        if config.omit_defaults and has_default and _is_default(value, defaults[position - first_default]):
            continue
        result[name] = plain(value)
    return result


def _is_default(value, default):
    # As msgspec compares: by identity, and empty containers of a default factory.
    if value is default:
        return True
    factory = getattr(default, "factory", None)
    return factory in (list, dict, set) and type(value) is factory and not value
