"""One stage of a three-stage stream as vLLM-Omni runs it: its configuration code, its factory, its chunk adapter, its
order of calls. Only what a model would compute, and the scheduler around the adapter, are this file's.

usage: omni_stage.py STAGE HOST REQUESTS CHUNKS    prints a JSON line when it is ready, and one when it has finished
"""

import json
import sys
import time
import types

import vllm_stand_in

CLASS = "MoriTransferEngineConnector"


def process(transfer_manager, multimodal_output, request, is_finished=False):
    """What turns a step's output into the next stage's chunk."""
    from vllm_omni.data_entry_keys import OmniPayloadStruct
    if multimodal_output is None:
        return None
    return OmniPayloadStruct(hidden=multimodal_output["hidden"], speaker="Ethan")


def chunk_of(request, index):
    import torch
    rows = 700 if index == 0 else 1  # the first chunk is large, the others are small, as a thinker's are
    values = torch.arange(rows * 2048, dtype=torch.float32).reshape(rows, 2048)
    return ((values + 31 * index + 1000 * request) % 251).to(torch.bfloat16)


def deploy(host):
    """A deploy file of vLLM-Omni's, as a dictionary."""
    extra = {"host": host, "zmq_port": 50051, "memory_pool_size": 64 << 20, "codec_chunk_frames": 25}
    return {"connectors": {"mori": {"name": CLASS, "extra": extra}},
            "stages": [{"stage_id": 0, "output_connectors": {"to_stage_1": "mori"}},
                       {"stage_id": 1, "input_connectors": {"from_stage_0": "mori"},
                        "output_connectors": {"to_stage_2": "mori"}},
                       {"stage_id": 2, "input_connectors": {"from_stage_1": "mori"}}]}


class Queue(list):
    add_request = list.append


class Stage:
    def __init__(self, number, host):
        from vllm_omni.distributed.omni_connectors.transfer_adapter.chunk_transfer_adapter import (
            OmniChunkTransferAdapter)
        from vllm_omni.distributed.omni_connectors.utils.initialization import (get_connectors_config_for_stage,
                                                                                load_omni_transfer_config)
        config = get_connectors_config_for_stage(load_omni_transfer_config(config_dict=deploy(host)), number)
        spec = next(iter(config.values()))["spec"]
        self.number = number
        self.adapter = OmniChunkTransferAdapter(types.SimpleNamespace(
            model_config=types.SimpleNamespace(
                stage_connector_config={"name": spec["name"], "extra": spec["extra"]}, stage_id=number,
                worker_type="ar", async_chunk=True, max_num_seqs=64,
                custom_process_next_stage_input_func="omni_stage.process"),
            scheduler_config=types.SimpleNamespace(max_num_seqs=64)))
        self.errors = []

    def send(self, request, hidden, last):
        request.num_computed_tokens += 1
        request.ended = last
        self.adapter.save_async({"hidden": hidden}, request)

    def step(self, waiting, got, chunks):
        """One round of the scheduler."""
        adapter = self.adapter
        adapter.process_pending_chunks(waiting, [])
        ready = [request for request in waiting if request.request_id in adapter.requests_with_ready_chunks]
        for request in ready:
            self.take(request, got, chunks)
        adapter.postprocess_scheduler_output(types.SimpleNamespace(
            scheduled_new_reqs=[], scheduled_cached_reqs=types.SimpleNamespace(
                req_ids=[request.request_id for request in ready])))
        adapter.restore_queues(waiting, [])
        for request in [r for r in waiting if got[r.external_req_id] == chunks]:
            waiting.remove(request)
        return bool(ready)

    def take(self, request, got, chunks):
        import torch
        index = got[request.external_req_id]
        got[request.external_req_id] += 1
        payload = request.additional_information
        expected = chunk_of(int(request.external_req_id), index)
        if not torch.equal(payload["hidden"], expected) or payload["speaker"] != "Ethan":
            self.errors.append(f"{request.external_req_id}, chunk {index}: not what was sent")
        if bool(payload["meta"]["finished"]) != (index == chunks - 1):
            self.errors.append(f"{request.external_req_id}, chunk {index}: finished is {payload['meta']['finished']}")
        if self.number < 2:
            self.send(request, payload["hidden"], index == chunks - 1)


def main():
    number, host, requests, chunks = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    vllm_stand_in.install()
    stage = Stage(number, host)
    connector = stage.adapter.connector
    print(json.dumps({"class": f"{type(connector).__module__}.{type(connector).__name__}"}), flush=True)
    all_requests = [vllm_stand_in.Request(str(i)) for i in range(requests)]
    if number == 0:
        for index in range(chunks):
            for i, request in enumerate(all_requests):
                stage.send(request, chunk_of(i, index), index == chunks - 1)
        received = None
    else:
        waiting, got = Queue(all_requests), {request.external_req_id: 0 for request in all_requests}
        deadline = time.monotonic() + 120
        while waiting and time.monotonic() < deadline:
            if not stage.step(waiting, got, chunks):
                time.sleep(0.002)  # for the adapter's own thread; its polls are what is being tested
        received = sum(got.values())
    sys.stdin.readline()  # until the stages behind have what they need
    failures = stage.adapter.collect_failed_send_request_ids()
    print(json.dumps({"received": received, "errors": stage.errors, "send_failures": failures,
                      "metrics": connector._metrics, "published": connector.health()["stagewire"]["published"]}),
          flush=True)
    stage.adapter.shutdown()


if __name__ == "__main__":
    main()
