"""What the connector inherits: vLLM-Omni's own base where that can be imported, else the same few methods."""

import logging

logger = logging.getLogger("vllm_omni.stagewire")


def connector_base():
    """vLLM-Omni's OmniConnectorBase, or ours when there is no vLLM-Omni (or no vLLM for it) in this environment."""
    try:
        from vllm_omni.distributed.omni_connectors.connectors.base import OmniConnectorBase
    except ImportError as error:
        logger.debug("without vLLM-Omni's connector base: %s", error)
        return ConnectorBase
    return OmniConnectorBase


class ConnectorBase:
    """The part of vLLM-Omni's base that a connector's users rely on."""

    supports_raw_data = False

    def __del__(self):
        self.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    @staticmethod
    def serialize_obj(obj):
        import stagewire
        return stagewire.encode(obj)

    @staticmethod
    def deserialize_obj(data):
        import stagewire
        return stagewire.decode(data)

    @staticmethod
    def _make_key(key, from_stage, to_stage, separator="@"):
        return f"{key}{separator}{from_stage}_{to_stage}"
