"""The chunk path from Python: the library's adapter, and Qwen2.5-Omni's processors with vLLM-Omni's signature."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest
import stagewire

torch = pytest.importorskip("torch")

ROWS, WIDTH = 5, 3584


def test_a_stream_through_the_adapters(pair):
    sender, receiver = pair
    talker = stagewire.ChunkTransferAdapter(sender, "qwen2_5_omni.talker2code2wav_async_chunk", stage_id=0,
                                            codec_chunk_frames=12, codec_left_context_frames=12)
    vocoder = stagewire.ChunkTransferAdapter(receiver, stage_id=1, mode="generation")
    codes = list(range(100, 160))
    for step, code in enumerate(codes):
        talker.save("r", {"codes.audio": torch.tensor([code])}, confirmed_tokens=step + 1,
                    finished=step == len(codes) - 1)
    new, finished = [], False
    while not finished:
        vocoder.load("internal", "r")
        assert vocoder.wait(60)
        for event in vocoder.take():
            assert "error" not in event, event
            meta, audio = event["payload"]["meta"], event["payload"]["codes"]["audio"].tolist()
            end = len(audio) - meta["right_holdback_size"]
            new += audio[meta["left_context_size"]:end]
            finished = event["finished"]
    assert new == codes
    talker.flush(60)
    talker.finish("r", "r")
    vocoder.finish("internal", "r")


def test_what_is_given_up_is_told(pair):
    sender, receiver = pair
    talker = stagewire.ChunkTransferAdapter(sender, "qwen2_5_omni.talker2code2wav_async_chunk", stage_id=0)
    vocoder = stagewire.ChunkTransferAdapter(receiver, stage_id=1, mode="generation")
    vocoder.load("internal", "r")
    talker.save("r", None, confirmed_tokens=1)
    talker.abort("r", "r", "the user has gone")
    assert vocoder.wait(60)
    event, = vocoder.take()
    assert "the user has gone" in event["error"] and not event["sending"]
    with pytest.raises(stagewire.InvalidArgument, match="qwen2_5_omni"):
        stagewire.ChunkProcessor("no_such_processor")


def test_a_thinkers_rows_become_chunks():
    thinker = stagewire.ChunkProcessor("qwen2_5_omni.thinker2talker_async_chunk")
    rows = torch.arange((ROWS + 2) * WIDTH, dtype=torch.float32).reshape(ROWS + 2, WIDTH)
    request = {"prompt_ids": list(range(ROWS)), "speaker": "Chelsie"}
    assert thinker.process("r", {"latent": rows[:ROWS]}, False, **request) is None
    first = thinker.process("r", {"latent": rows[ROWS:ROWS + 1]}, False, output_ids=[7], **request)
    assert torch.equal(first["embed"]["prefill"], rows[:ROWS])
    assert torch.equal(first["embed"]["decode"], rows[ROWS:ROWS + 1])
    assert first["meta"]["next_stage_prompt_len"] == ROWS + 2 and first["speaker"] == "Chelsie"
    second = thinker.process("r", {"latent": rows[ROWS + 1:]}, True, output_ids=[7, 8], **request)
    assert torch.equal(second["embed"]["decode"], rows[ROWS + 1:])
    assert torch.equal(first["embed"]["prefill"], rows[:ROWS])  # which is the caller's to keep


def test_the_functions_make_vllm_omnis_structs():
    if importlib.util.find_spec("vllm_omni") is None:
        pytest.skip("vllm-omni is not installed")
    code = """
import types, torch, vllm_stand_in
vllm_stand_in.install()
from stagewire.vllm_omni.qwen2_5_omni import talker2code2wav_async_chunk, thinker2talker_async_chunk
manager = type("Manager", (), {"connector": types.SimpleNamespace(config={"codec_chunk_frames": 12,
                                                                         "codec_left_context_frames": 12})})()
request = vllm_stand_in.Request("r")
request.prompt_token_ids, request.output_token_ids = [1, 2, 3], [7]
rows = torch.ones(4, 3584, dtype=torch.bfloat16)
assert thinker2talker_async_chunk(manager, {"latent": rows[:3]}, request) is None
chunk = thinker2talker_async_chunk(transfer_manager=manager, multimodal_output={"latent": rows[3:]}, request=request,
                                   is_finished=False)
print(type(chunk).__name__, tuple(chunk.embed.prefill.shape), tuple(chunk.embed.decode.shape), chunk.ids.prompt)
made = [talker2code2wav_async_chunk(manager, {"codes": {"audio": torch.tensor([code])}}, request, code == 39)
        for code in range(40)]
made = [chunk for chunk in made if chunk is not None]
print(sum(len(chunk.codes.audio) - chunk.meta.left_context_size - chunk.meta.right_holdback_size for chunk in made))
"""
    output = subprocess.run([sys.executable, "-c", code], cwd=pathlib.Path(__file__).parent, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    assert output == "OmniPayloadStruct (3, 3584) (1, 3584) [1, 2, 3]\n40\n"
