#include "deploy/ports.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "base/text.hpp"

namespace stagewire::deploy {
namespace {

Result<int> checked_port(std::int64_t port, int base, int stage_id) {
  if (port >= 1 && port <= 65535) return static_cast<int>(port);
  return base::error(ErrorCode::invalid_argument, "zmq_port ", base, " makes port ", port, " for stage ",
                     stage_id, ", ports end at 65535: choose a smaller zmq_port, or 0 for any");
}

}  // namespace

Result<int> stage_port(int base, int stage_id) {
  if (base == 0) return 0;
  return checked_port(std::int64_t{base} + stage_id, base, stage_id);
}

Result<int> purpose_port(int base, Purpose purpose, int replica, int local_rank, int from_stage) {
  constexpr int kStages = 16;
  constexpr std::int64_t kReplicaStride = 1024;
  constexpr std::int64_t kRankStride = 16;
  if (from_stage < 0 || from_stage >= kStages) {
    return base::error(ErrorCode::invalid_argument, "stage ", from_stage,
                       " sends, but this port_rule has room for ", "stages 0 to ", kStages - 1,
                       " only: use port_rule: stage");
  }
  if (replica < 0 || local_rank < 0) {
    return base::error(ErrorCode::invalid_argument, "replica ", replica, " and rank ", local_rank,
                       " must not be negative");
  }
  if (base == 0) return 0;
  return checked_port(base + static_cast<std::int64_t>(purpose) + replica * kReplicaStride +
                          local_rank * kRankStride + from_stage,
                      base, from_stage);
}

Result<int> replica_from_environment() {
  const char* text = std::getenv("VLLM_OMNI_REPLICA_ID");
  if (text == nullptr || *text == '\0') return 0;
  std::string_view digits = text;
  int replica = 0;
  auto [stopped, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), replica);
  if (failure != std::errc() || stopped != digits.data() + digits.size() || replica < 0) {
    return base::error(ErrorCode::invalid_argument, "VLLM_OMNI_REPLICA_ID is `", digits.substr(0, 60),
                       "`: set it to the number of this replica, from 0");
  }
  return replica;
}

Result<int> port_by_rule(std::string_view port_rule, int base, int from_stage) {
  if (port_rule == "stage") return stage_port(base, from_stage);
  Purpose purpose = port_rule == "kv_transfer"    ? Purpose::kv_transfer
                    : port_rule == "orchestrator" ? Purpose::orchestrator
                                                  : Purpose::request_forwarding;
  auto replica = replica_from_environment();
  if (!replica) return replica.error();
  return purpose_port(base, purpose, *replica, 0, from_stage);
}

}  // namespace stagewire::deploy
