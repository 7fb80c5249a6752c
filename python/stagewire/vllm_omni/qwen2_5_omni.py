"""Qwen2.5-Omni's asynchronous chunks, for which vLLM-Omni has no processors: functions with the signature of its own,
over the library's. docs/vllm-omni.md has the pipeline that names them.
"""

import weakref

import stagewire

# One processor for each adapter that calls, as its state is of that adapter's requests.
_processors = weakref.WeakKeyDictionary()


def thinker2talker_async_chunk(transfer_manager, multimodal_output, request, is_finished=False):
    """Chunk 0: the prompt's rows and the first of the reply; then a row a chunk."""
    return _process("qwen2_5_omni.thinker2talker_async_chunk", transfer_manager, multimodal_output, request,
                    is_finished)


def talker2code2wav_async_chunk(transfer_manager, multimodal_output, request, is_finished=False):
    """Windows of codes, in whole blocks of the decoder's."""
    return _process("qwen2_5_omni.talker2code2wav_async_chunk", transfer_manager, multimodal_output, request,
                    is_finished)


def _process(name, transfer_manager, output, request, is_finished):
    external_id = request.external_req_id
    payload = _processor(name, transfer_manager).process(
        external_id, output, bool(is_finished), internal_id=str(request.request_id),
        prompt_ids=_ids(request, "prompt_token_ids"), output_ids=_ids(request, "output_token_ids"),
        resumable=bool(getattr(request, "resumable", False)), speaker=_text(request, "speaker"),
        language=_text(request, "language"), tensors="torch")
    if is_finished:
        if getattr(request, "resumable", False):
            _processor(name, transfer_manager).end_segment(external_id)
        else:
            _processor(name, transfer_manager).forget(external_id)
    if payload is None:
        return None
    from vllm_omni.data_entry_keys import to_struct
    return to_struct(payload)


def _processor(name, transfer_manager):
    of_manager = _processors.setdefault(transfer_manager, {})
    if name not in of_manager:
        of_manager[name] = stagewire.ChunkProcessor(name, **_options(transfer_manager))
    return of_manager[name]


def _options(transfer_manager):
    """The connector's keys of that name, where vLLM-Omni's own processors look for theirs."""
    config = getattr(getattr(transfer_manager, "connector", None), "config", None) or {}
    config = config.get("extra", config)
    names = ("codec_chunk_frames", "codec_left_context_frames", "initial_codec_chunk_frames")
    return {name: int(config[name]) for name in names if config.get(name) is not None}


def _ids(request, name):
    return [int(token) for token in getattr(request, name, None) or ()]


def _text(request, name):
    information = getattr(request, "additional_information", None)
    value = information.get(name) if isinstance(information, dict) else None
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    return value if isinstance(value, str) else ""
