// The two rules by which vllm-omni's generations number their control ports; docs/config.md explains both.
#pragma once

#include <string_view>

#include "stagewire/result.hpp"

namespace stagewire::deploy {

/// Rule (a): base + the sender's stage id. 0 stays 0 (any port). `invalid_argument` when it leaves 1..65535.
Result<int> stage_port(int base, int stage_id);

/// What the connection is for, with its offset in rule (b).
enum class Purpose { request_forwarding = 0, kv_transfer = 100, orchestrator = 200 };

/// Rule (b): base + purpose + replica * 1024 + local_rank * 16 + from_stage. 0 stays 0. `invalid_argument`
/// when from_stage is not in 0..15, rank or replica is negative, or the sum leaves 1..65535.
Result<int> purpose_port(int base, Purpose purpose, int replica, int local_rank, int from_stage);

/// The replica of this pipeline on its host, from VLLM_OMNI_REPLICA_ID; 0 when that is not set.
Result<int> replica_from_environment();

/// By the value of `port_rule`: "stage", or the name of a purpose (with the replica of the environment, rank
/// 0).
Result<int> port_by_rule(std::string_view port_rule, int base, int from_stage);

}  // namespace stagewire::deploy
