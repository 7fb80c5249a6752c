// The keys of a connector's `extra`: one row each, and what a row fills in.
#include <iterator>

#include "deploy/schema.hpp"

namespace stagewire::deploy {
namespace {

constexpr auto kOurs = Origin::stagewire;
constexpr double kMaxCount = 1'000'000;

constexpr KeySpec kExtra[] = {
    {.name = "host",
     .type = ValueType::text,
     .fallback = "127.0.0.1",
     .meaning =
         "Address or name that the stage binds; `auto` takes the address of the default route's interface."},
    {.name = "zmq_port",
     .type = ValueType::integer,
     .fallback = "50051",
     .minimum = 0,
     .maximum = 65535,
     .meaning = "Base of the ports, see the rules above; 0 = any free port, found by the peer through the "
                "pipeline."},
    {.name = "port_rule",
     .type = ValueType::choice,
     .fallback = "stage",
     .choices = "stage|request_forwarding|kv_transfer|orchestrator",
     .origin = kOurs,
     .meaning =
         "How a stage's port follows from `zmq_port`: `stage` adds the stage's number, the others are the "
         "purposes of rule (b)."},
    {.name = "backend_type",
     .type = ValueType::choice,
     .fallback = "auto",
     .choices = "auto|shm|rdma|xgmi|cuda_ipc|ucx",
     .meaning =
         "What moves the bytes; `auto` is the best that both ends have. `rdma` and `xgmi` are vllm-omni's, "
         "whose default is `rdma`; the others are Stagewire's."},
    {.name = "device_name",
     .type = ValueType::text,
     .meaning = "Network devices for `rdma`, such as `mlx5_0`."},
    {.name = "memory_pool_size",
     .type = ValueType::size,
     .fallback = "1GiB",
     .minimum = 65536,
     .maximum = 70368744177664.0,
     .meaning = "The stage's pool, taken at start; what is on its way must fit into it."},
    {.name = "memory_pool_device",
     .type = ValueType::token,
     .fallback = "cpu",
     .meaning = "Where the pool lies; `cpu` is what this version has."},
    {.name = "role",
     .type = ValueType::choice,
     .choices = "sender|receiver|dual",
     .meaning = "Derived from the edges; a value that differs is reported and not used."},
    {.name = "sender_host",
     .type = ValueType::text,
     .meaning = "Where the stage finds its upstream; derived from `host` when it is not given."},
    {.name = "sender_zmq_port",
     .type = ValueType::integer,
     .minimum = 1,
     .maximum = 65535,
     .meaning = "Upstream's port; derived when it is not given."},
    {.name = "buffer_ttl_s",
     .type = ValueType::number,
     .fallback = "300",
     .minimum = 0,
     .maximum = 1e9,
     .origin = kOurs,
     .meaning = "Seconds after which an unread payload is dropped; 0 = never."},
    {.name = "lease_share",
     .type = ValueType::number,
     .fallback = "0.5",
     .minimum = 0,
     .maximum = 1,
     .origin = kOurs,
     .meaning = "Share of the pool that receivers may hold in place (route `lease`) at once."},
    {.name = "route",
     .type = ValueType::choice,
     .fallback = "auto",
     .choices = "auto|eager|lease|read",
     .origin = kOurs,
     .meaning = "The receiver's wish, for measuring; `auto` is the cheapest."},
    {.name = "wait",
     .type = ValueType::choice,
     .fallback = "adaptive",
     .choices = "block|spin|adaptive",
     .origin = kOurs,
     .meaning = "How threads wait; `adaptive` spins shortly, and only after recent traffic."},
    {.name = "fault_spec",
     .type = ValueType::text,
     .origin = kOurs,
     .meaning = "Faults to make on purpose, for tests, such as `drop=0.01,delay_ms=2,seed=7`."},
    {.name = "xgmi_num_streams",
     .type = ValueType::integer,
     .fallback = "64",
     .minimum = 1,
     .maximum = kMaxCount,
     .meaning = "Read by `xgmi` only."},
    {.name = "xgmi_num_events",
     .type = ValueType::integer,
     .fallback = "64",
     .minimum = 1,
     .maximum = kMaxCount,
     .meaning = "Read by `xgmi` only."},
    {.name = "qp_per_transfer",
     .type = ValueType::integer,
     .fallback = "1",
     .minimum = 1,
     .maximum = kMaxCount,
     .meaning = "Queue pairs, read by `rdma` only."},
    {.name = "post_batch_size",
     .type = ValueType::integer,
     .fallback = "-1",
     .minimum = -1,
     .maximum = kMaxCount,
     .meaning = "Work requests posted at once, read by `rdma` only; -1 = its own choice."},
    {.name = "num_worker_threads",
     .type = ValueType::integer,
     .fallback = "1",
     .minimum = 1,
     .maximum = kMaxCount,
     .meaning = "Read by `rdma` only."},
    {.name = "codec_chunk_frames",
     .type = ValueType::integer,
     .fallback = "25",
     .minimum = 1,
     .maximum = kMaxCount,
     .meaning = "Codec frames in a chunk."},
    {.name = "codec_left_context_frames",
     .type = ValueType::integer,
     .fallback = "25",
     .minimum = 0,
     .maximum = kMaxCount,
     .meaning = "Earlier frames that are sent again in front of a chunk."},
    {.name = "initial_codec_chunk_frames",
     .type = ValueType::integer,
     .fallback = "0",
     .minimum = 0,
     .maximum = kMaxCount,
     .meaning = "Frames of the first chunk; 0 = as many as in the others."},
};

struct Field {
  std::string_view name;
  void (*store)(ConnectorConfig&, const Value&);
};

WaitStrategy wait_strategy(const std::string& word) {
  if (word == "block") return WaitStrategy::block;
  return word == "spin" ? WaitStrategy::spin : WaitStrategy::adaptive;
}

/// Hosts are compared as texts, so one spelling each.
std::string plain_host(const std::string& host) {
  bool is_auto = host.size() == 4 && (host[0] | 32) == 'a' && (host[1] | 32) == 'u' &&
                 (host[2] | 32) == 't' && (host[3] | 32) == 'o';
  return is_auto ? "auto" : host;
}

constexpr Field kFields[] = {
    {"host", [](ConnectorConfig& c, const Value& v) { c.host = plain_host(v.text); }},
    {"zmq_port", [](ConnectorConfig& c, const Value& v) { c.zmq_port = static_cast<int>(v.integer); }},
    {"backend_type", [](ConnectorConfig& c, const Value& v) { c.backend_type = v.text; }},
    {"device_name", [](ConnectorConfig& c, const Value& v) { c.device_name = v.text; }},
    {"memory_pool_size", [](ConnectorConfig& c, const Value& v) { c.memory_pool_size = v.size; }},
    {"memory_pool_device", [](ConnectorConfig& c, const Value& v) { c.memory_pool_device = v.text; }},
    {"sender_host", [](ConnectorConfig& c, const Value& v) { c.sender_host = plain_host(v.text); }},
    {"sender_zmq_port",
     [](ConnectorConfig& c, const Value& v) { c.sender_zmq_port = static_cast<int>(v.integer); }},
    {"buffer_ttl_s", [](ConnectorConfig& c, const Value& v) { c.buffer_ttl_s = v.number; }},
    {"lease_share", [](ConnectorConfig& c, const Value& v) { c.lease_share = v.number; }},
    {"route", [](ConnectorConfig& c, const Value& v) { c.route = v.text; }},
    {"wait", [](ConnectorConfig& c, const Value& v) { c.wait = wait_strategy(v.text); }},
    {"fault_spec", [](ConnectorConfig& c, const Value& v) { c.fault_spec = v.text; }},
};

template <std::size_t N>
bool is_one_of(std::string_view name, const std::string_view (&names)[N]) {
  for (std::string_view one : names) {
    if (one == name) return true;
  }
  return false;
}

}  // namespace

KeySpecs extra_keys() {
  return kExtra;
}

bool is_injected_key(std::string_view name) {
  return is_one_of(name, {"stage_id", "from_stage", "to_stage"});
}

bool store(ConnectorConfig& config, std::string_view name, const Value& value) {
  for (const Field& field : kFields) {
    if (field.name != name) continue;
    field.store(config, value);
    return true;
  }
  return false;
}

bool is_chunk_option(std::string_view name) {
  return is_one_of(name, {"codec_chunk_frames", "codec_left_context_frames", "initial_codec_chunk_frames"});
}

bool is_directional(std::string_view name) {
  return is_one_of(name, {"role", "sender_host", "sender_zmq_port", "zmq_port", "port_rule"});
}

}  // namespace stagewire::deploy
