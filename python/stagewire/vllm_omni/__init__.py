"""Stagewire inside vLLM-Omni: its MoriTransferEngineConnector, over stagewire.

vLLM and vLLM-Omni find `plugin.register` by the package's entry points and call it in each of their processes;
STAGEWIRE_DISABLE=1 leaves the edges to vLLM-Omni's own connector. docs/vllm-omni.md is the user's side of it.
"""

__all__ = ["ManagedBuffer", "MoriTransferEngineConnector", "StagewireConnector", "register"]


def __getattr__(name):
    # The connector's base comes from vllm_omni, which is slow to import, and which imports us in its start.
    if name == "register":
        from .plugin import register
        return register
    if name == "ManagedBuffer":
        from .managed_buffer import ManagedBuffer
        return ManagedBuffer
    if name in ("MoriTransferEngineConnector", "StagewireConnector"):
        from . import connector
        return getattr(connector, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
