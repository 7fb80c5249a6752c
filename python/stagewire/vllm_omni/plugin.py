"""Puts our connector into vLLM-Omni's factory, under the name that deploy files use.

Called in every process of vLLM and vLLM-Omni, perhaps more than once, and in those of a vLLM that never serves an
omni model: so nothing of vllm_omni is imported here. If its factory is not there yet, it is changed once it is.
"""

import importlib.abc
import importlib.machinery
import logging
import os
import sys

NAME = "MoriTransferEngineConnector"
OWN_NAME = "StagewireConnector"
FACTORY = "vllm_omni.distributed.omni_connectors.factory"

# Below vllm_omni's loggers, so that its lines go where those of vLLM-Omni go.
logger = logging.getLogger("vllm_omni.stagewire")

_original = None


def disabled():
    """Why the edges are left to vLLM-Omni's own connector, or None."""
    return f"STAGEWIRE_DISABLE={os.environ['STAGEWIRE_DISABLE']}" if _is_on("STAGEWIRE_DISABLE") else None


def _is_on(name):
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")


def register():
    """Serves MoriTransferEngineConnector from here on, unless STAGEWIRE_DISABLE says no. Idempotent."""
    if _is_on("STAGEWIRE_COMPAT_MORI"):
        import stagewire.compat.mori  # noqa: F401
    factory = sys.modules.get(FACTORY)
    if factory is not None and hasattr(factory, "OmniConnectorFactory"):
        _apply(factory)
    elif not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())


def unregister():
    """Brings vLLM-Omni's own connector back, for connectors that are made from here on."""
    global _original
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _WhenImported)]
    factory = sys.modules.get(FACTORY)
    if factory is None or _original is None:
        return
    registry = factory.OmniConnectorFactory._registry
    registry[NAME] = _original
    registry.pop(OWN_NAME, None)
    _original = None
    logger.info("%s is vLLM-Omni's own again", NAME)


def original_constructor():
    """vLLM-Omni's own constructor of the name that is served from here, or None."""
    return _original


def _apply(factory):
    global _original
    reason = disabled()
    if reason is not None:
        logger.info("stagewire is installed and left out: %s; %s is vLLM-Omni's own", reason, NAME)
        return
    connectors = factory.OmniConnectorFactory
    registry = getattr(connectors, "_registry", None)
    if not isinstance(registry, dict):
        _register_own_name(connectors)
        logger.warning("this vLLM-Omni keeps its connectors where stagewire does not find them: use `name: %s` in the "
                       "deploy file", OWN_NAME)
        return
    if registry.get(NAME) is _create:
        return
    from stagewire import __version__
    _original = registry.get(NAME)
    registry[NAME] = _create
    registry[OWN_NAME] = _create_own
    dual = getattr(connectors, "_dual_role_connectors", None)
    if isinstance(dual, set):
        dual.update((NAME, OWN_NAME))
    logger.info("%s is served by stagewire %s (installed, and STAGEWIRE_DISABLE is not set); STAGEWIRE_DISABLE=1 "
                "brings vLLM-Omni's own back", NAME, __version__)


def _register_own_name(connectors):
    try:
        connectors.register_connector(OWN_NAME, _create_own)
    except ValueError:
        pass  # by an earlier call


def _create(config):
    from .connector import MoriTransferEngineConnector
    return MoriTransferEngineConnector(config)


def _create_own(config):
    from .connector import StagewireConnector
    return StagewireConnector(config)


class _WhenImported(importlib.abc.MetaPathFinder):
    """Lets others find vLLM-Omni's factory, and changes it right after it has been imported."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != FACTORY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        _apply(module)

    def __getattr__(self, name):
        return getattr(self._loader, name)
