// The keys of a connector's `extra`: one row each, and what a row fills in.
#include <iterator>

#include "deploy/schema.hpp"

namespace stagewire::deploy {
namespace {

constexpr auto kInteger = ValueType::integer;
constexpr auto kNumber = ValueType::number;
constexpr auto kSize = ValueType::size;
constexpr auto kText = ValueType::text;
constexpr auto kToken = ValueType::token;
constexpr auto kChoice = ValueType::choice;
constexpr double kMaxCount = 1'000'000;

constexpr KeySpec kExtra[] = {
    row("host", kText,
        "Address or name that the stage binds; `auto` takes the address of the default route's interface.")
        .by_default("127.0.0.1"),
    row("zmq_port", kInteger,
        "Base of the ports, see the rules above; 0 = any free port, found by the peer through the "
        "pipeline.")
        .by_default("50051")
        .between(0, 65535),
    row("port_rule", kChoice,
        "How a stage's port follows from `zmq_port`: `stage` adds the stage's number, the others are the "
        "purposes of rule (b).")
        .by_default("stage")
        .one_of("stage|request_forwarding|kv_transfer|orchestrator")
        .ours(),
    row("backend_type", kChoice,
        "What moves the bytes; `auto` is the best that both ends have. `rdma` and `xgmi` are vllm-omni's, "
        "whose default is `rdma`; the others are Stagewire's.")
        .by_default("auto")
        .one_of("auto|shm|rdma|xgmi|cuda_ipc|ucx"),
    row("device_name", kText,
        "Network devices for `rdma`, in order: `mlx5_0,mlx5_1`, or `^mlx5_2` for all but that; else "
        "`MORI_RDMA_DEVICES`, else all."),
    row("memory_pool_size", kSize, "The stage's pool, taken at start; what is on its way must fit into it.")
        .by_default("1GiB")
        .between(65536, 70368744177664.0),
    row("memory_pool_device", kToken, "Where the pool lies; `cpu` is what this version has.")
        .by_default("cpu"),
    row("role", kChoice, "Derived from the edges; a value that differs is reported and not used.")
        .one_of("sender|receiver|dual"),
    row("sender_host", kText,
        "Where the stage looks for its upstream, kept if it is given; else derived from `host`."),
    row("sender_zmq_port", kInteger, "Upstream's port, kept if it is given; else derived.").between(1, 65535),
    row("buffer_ttl_s", kNumber, "Seconds after which an unread payload is dropped, from 0.001; 0 = never.")
        .by_default("300")
        .between(0, 1e9)
        .ours(),
    row("original_timeout_s", kNumber,
        "Seconds that a sender of the original's kind has for a pull, and 5 more for each full 100 MiB.")
        .by_default("30")
        .between(0.001, 1e9)
        .ours(),
    row("lease_share", kNumber, "Share of the pool that receivers may hold in place (route `lease`) at once.")
        .by_default("0.5")
        .between(0, 1)
        .ours(),
    row("route", kChoice, "The receiver's wish, for measuring; `auto` is the cheapest.")
        .by_default("auto")
        .one_of("auto|eager|lease|read")
        .ours(),
    row("wait", kChoice, "How threads wait; `adaptive` spins shortly, and only after recent traffic.")
        .by_default("adaptive")
        .one_of("block|spin|adaptive")
        .ours(),
    row("secret_key", kText,
        "A key that all stages share, 64 hexadecimal digits (`openssl rand -hex 32`): encrypts the control "
        "plane and keeps others out. Better from the environment, `${STAGEWIRE_SECRET_KEY}`, than here.")
        .ours(),
    row("fault_spec", kText, "Faults to make on purpose, for tests, such as `drop=0.01,delay_ms=2,seed=7`.")
        .ours(),
    row("xgmi_num_streams", kInteger, "Read by `xgmi` only.").by_default("64").between(1, kMaxCount),
    row("xgmi_num_events", kInteger, "Read by `xgmi` only.").by_default("64").between(1, kMaxCount),
    row("qp_per_transfer", kInteger, "Queue pairs, read by `rdma` only.").by_default("1").between(1, 16),
    row("rails_per_transfer", kInteger,
        "Ports of `rdma` that one transfer is spread over, with `qp_per_transfer` queue pairs on each.")
        .by_default("1")
        .between(1, 8)
        .ours(),
    row("post_batch_size", kInteger,
        "Work requests posted at once, read by `rdma` only, 64 at most; -1 = its own choice.")
        .by_default("-1")
        .between(-1, 1024),
    row("gid_index", kInteger, "The port's address for `rdma`; else `MORI_IB_GID_INDEX`, else chosen.")
        .between(0, 1023)
        .ours(),
    row("service_level", kInteger, "Of InfiniBand, for `rdma`; else `MORI_IO_SL`, `MORI_RDMA_SL`.")
        .by_default("0")
        .between(0, 15)
        .ours(),
    row("traffic_class", kInteger, "Of RoCE, for `rdma`; else `MORI_IO_TC`, `MORI_RDMA_TC`.")
        .by_default("0")
        .between(0, 255)
        .ours(),
    row("path_mtu", kInteger,
        "Bytes of a packet for `rdma`, at most; else `MORI_IB_PATH_MTU`, else the port's.")
        .between(256, 4096)
        .ours(),
    row("rdma_retry_count", kInteger, "How often a packet is sent again before its queue pair fails.")
        .by_default("6")
        .between(1, 6)
        .ours(),
    row("rdma_ack_timeout", kInteger, "A packet is sent again after 4.096 us * 2^this.")
        .by_default("14")
        .between(1, 31)
        .ours(),
    row("rdma_recovery_timeout_ms", kInteger,
        "That a connection over `rdma` may be broken before it is lost.")
        .by_default("10000")
        .between(1, 3'600'000)
        .ours(),
    row("rdma_max_piece", kSize, "Bytes of one work request, at most.")
        .by_default("1MiB")
        .between(4096, 2147483648.0)
        .ours(),
    row("mori_port", kInteger,
        "Also meets engines of MORI-IO's, over RDMA: the TCP port that they call, 0 = any free one. Their "
        "protocol has no secret (docs/mori.md).")
        .between(0, 65535)
        .ours(),
    row("num_worker_threads", kInteger, "Accepted and not used: `rdma` needs none for its data.")
        .by_default("1")
        .between(1, kMaxCount),
    row("codec_chunk_frames", kInteger, "Codec frames in a chunk.").by_default("25").between(1, kMaxCount),
    row("codec_left_context_frames", kInteger, "Earlier frames that are sent again in front of a chunk.")
        .by_default("25")
        .between(0, kMaxCount),
    row("initial_codec_chunk_frames", kInteger, "Frames of the first chunk; 0 = as many as in the others.")
        .by_default("0")
        .between(0, kMaxCount),
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
    {"memory_pool_size", [](ConnectorConfig& c, const Value& v) { c.memory_pool_size = v.size; }},
    {"memory_pool_device", [](ConnectorConfig& c, const Value& v) { c.memory_pool_device = v.text; }},
    {"sender_host", [](ConnectorConfig& c, const Value& v) { c.sender_host = plain_host(v.text); }},
    {"sender_zmq_port",
     [](ConnectorConfig& c, const Value& v) { c.sender_zmq_port = static_cast<int>(v.integer); }},
    {"buffer_ttl_s", [](ConnectorConfig& c, const Value& v) { c.buffer_ttl_s = v.number; }},
    {"original_timeout_s", [](ConnectorConfig& c, const Value& v) { c.original_timeout_s = v.number; }},
    {"lease_share", [](ConnectorConfig& c, const Value& v) { c.lease_share = v.number; }},
    {"route", [](ConnectorConfig& c, const Value& v) { c.route = v.text; }},
    {"wait", [](ConnectorConfig& c, const Value& v) { c.wait = wait_strategy(v.text); }},
    {"secret_key", [](ConnectorConfig& c, const Value& v) { c.secret_key = v.text; }},
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

// Settings that go to the backends as they are.
bool is_backend_setting(std::string_view name) {
  return is_one_of(name, {"device_name", "qp_per_transfer", "rails_per_transfer", "post_batch_size",
                          "gid_index", "service_level", "traffic_class", "path_mtu", "rdma_retry_count",
                          "rdma_ack_timeout", "rdma_recovery_timeout_ms", "rdma_max_piece", "mori_port"});
}

std::string setting_text(std::string_view name, const Value& value) {
  if (name == "device_name") return value.text;
  return name == "rdma_max_piece" ? std::to_string(value.size) : std::to_string(value.integer);
}

bool store(ConnectorConfig& config, std::string_view name, const Value& value) {
  if (is_backend_setting(name)) {
    // A default is the backend's own, which may come from the environment.
    const std::string text = setting_text(name, value);
    if (!value.is_default() && !text.empty()) config.backend_settings[std::string(name)] = text;
    return true;
  }
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
