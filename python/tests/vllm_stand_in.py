"""Stands in for the parts of vLLM that vLLM-Omni's connectors and chunk adapter import, and for the start of vllm_omni
itself, which changes vLLM as it is imported. Everything below vllm_omni is the real package's.
"""

import enum
import importlib.util
import logging
import sys
import types


def install(plugins=True):
    """Before the first import of vllm_omni. `plugins`: as vLLM-Omni does at the start of each process."""
    _module("vllm", __path__=[])
    _module("vllm.envs", VLLM_PLUGINS=None)
    _module("vllm.logger", init_logger=logging.getLogger)
    _module("vllm.plugins", load_general_plugins=lambda: None)
    _module("vllm.outputs", CompletionOutput=type("CompletionOutput", (), {}),
            RequestOutput=type("RequestOutput", (), {}))
    _module("vllm.distributed", __path__=[])
    _module("vllm.distributed.parallel_state", get_tensor_model_parallel_rank=lambda: 0,
            get_tensor_model_parallel_world_size=lambda: 1)
    _module("vllm.v1", __path__=[])
    _module("vllm.v1.metrics", __path__=[])
    _module("vllm.v1.metrics.stats", PrefillStats=type("PrefillStats", (), {}))
    _module("vllm.v1.request", Request=Request, RequestStatus=RequestStatus)
    _module("vllm.v1.utils", ConstantList=list)
    root = importlib.util.find_spec("vllm_omni").submodule_search_locations
    _module("vllm_omni", __path__=list(root))
    # Modules that reach far into vLLM for functions that the paths of the tests do not call.
    _module("vllm_omni.entrypoints", __path__=[f"{root[0]}/entrypoints"])
    _module("vllm_omni.metrics", OrchestratorAggregator=object)
    _module("vllm_omni.platforms", current_omni_platform=None)
    _module("vllm_omni.config", __path__=[])
    _module("vllm_omni.config.yaml_util", to_dict=dict)
    if plugins:
        from vllm_omni.plugins import load_omni_general_plugins
        load_omni_general_plugins()


class RequestStatus(enum.IntEnum):
    WAITING = 0
    WAITING_FOR_CHUNK = 1
    RUNNING = 2
    PREEMPTED = 3
    FINISHED = 4


class Request:
    """A request as far as the chunk adapter looks at it."""

    def __init__(self, request_id):
        self.request_id = f"internal-{request_id}"
        self.external_req_id = request_id
        self.status = RequestStatus.WAITING
        self.prompt_token_ids = []
        self.num_prompt_tokens = 0
        self.num_computed_tokens = 0
        self.num_output_placeholders = 0
        self.additional_information = None
        self.resumable = False
        self.ended = False

    def is_finished(self):
        return self.ended


def _module(name, **attributes):
    module = types.ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
