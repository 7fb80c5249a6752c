#include "stagewire/connector.hpp"

#include <algorithm>

#include "at_exit.hpp"
#include "changes.hpp"
#include "connector.hpp"
#include "delivery.hpp"
#include "values.hpp"

namespace stagewire::python {
namespace {

using std::string_view;

Role role_of(string_view name) {
  for (const Role role : {Role::sender, Role::receiver, Role::dual}) {
    if (to_string(role) == name) return role;
  }
  throw Raised(Error(ErrorCode::invalid_argument,
                     "role: " + std::string(name) + " is none of sender, receiver, dual"));
}

nb::dict dict_of(const TransferMetadata& metadata) {
  nb::dict result;
  result["source_host"] = metadata.source_host;
  result["source_port"] = metadata.source_port;
  if (metadata.data_size) result["data_size"] = *metadata.data_size;
  result["is_fast_path"] = metadata.is_fast_path;
  return result;
}

// Size 0 and none at all both mean: the sender is asked.
TransferMetadata metadata_of(const nb::dict& given) {
  TransferMetadata metadata;
  if (given.contains("source_host"))
    metadata.source_host = nb::cast<std::string>(nb::str(given["source_host"]));
  if (given.contains("source_port")) metadata.source_port = nb::cast<int>(given["source_port"]);
  if (given.contains("data_size") && !given["data_size"].is_none()) {
    const auto size = nb::cast<std::uint64_t>(given["data_size"]);
    if (size > 0) metadata.data_size = size;
  }
  return metadata;
}

nb::dict dict_of(const RouteCounters& counters) {
  nb::dict result;
  result["count"] = counters.count;
  result["bytes"] = counters.bytes;
  return result;
}

nb::dict dict_of(const Health& health) {
  nb::dict result;
  result["healthy"] = health.healthy;
  result["error"] = health.error;
  result["host"] = health.host;
  result["zmq_port"] = health.zmq_port;
  result["pool_device"] = health.pool_device;
  result["pool_size"] = health.pool_size;
  result["pool_free"] = health.pool_free;
  result["pool_quarantined"] = health.pool_quarantined;
  result["engine_key"] = health.engine_key;
  result["puts"] = health.puts;
  result["gets"] = health.gets;
  result["bytes_put"] = health.bytes_put;
  result["bytes_got"] = health.bytes_got;
  result["errors"] = health.errors;
  result["timeouts"] = health.timeouts;
  result["expired"] = health.expired;
  result["published"] = health.published;
  result["watched"] = health.watched;
  result["late"] = health.late;
  result["eager"] = dict_of(health.eager);
  result["lease"] = dict_of(health.lease);
  result["read"] = dict_of(health.read);
  result["write"] = dict_of(health.write);
  result["route_reason"] = health.route_reason;
  result["latency_p50_us"] = health.latency_p50_us;
  result["latency_p90_us"] = health.latency_p90_us;
  result["latency_p99_us"] = health.latency_p99_us;
  return result;
}

std::span<const std::byte> bytes_of(const HeldBuffer& held) {
  return held.bytes;
}

bool is_bytes_like(nb::handle object) {
  return PyBytes_Check(object.ptr()) || PyByteArray_Check(object.ptr()) || PyMemoryView_Check(object.ptr());
}

nb::dict put(const OpenConnector& self, string_view from, string_view to, string_view key,
             const nb::object& data, double timeout, bool as_object) {
  Connector& connector = *self.connector;
  const PutOptions options{.timeout = milliseconds(timeout)};
  if (nb::isinstance<Block>(data)) {
    auto& block = nb::cast<Block&>(data);
    const PutOptions as_it_is{.timeout = options.timeout, .encoded_object = block.is_object()};
    PoolBuffer buffer = block.take();
    return dict_of(value_or_raise(without_gil([&] {
                     return connector.put(from, to, key, std::move(buffer), as_it_is);
                   })).metadata);
  }
  if (!as_object && is_bytes_like(data)) {
    const HeldBuffer held = hold_buffer(data);
    return dict_of(value_or_raise(without_gil([&] {
                     return connector.put(from, to, key, bytes_of(held), options);
                   })).metadata);
  }
  if (const auto tensor = as_object ? std::nullopt : import_tensor(data)) {
    return dict_of(value_or_raise(without_gil([&] {
                     return connector.put(from, to, key, tensor->view, options);
                   })).metadata);
  }
  const HeldValue held = import_value(data);
  return dict_of(value_or_raise(without_gil([&] {
                   return connector.put(from, to, key, held.value, options);
                 })).metadata);
}

nb::dict put_encoded(const OpenConnector& self, string_view from, string_view to, string_view key,
                     const nb::object& data, double timeout) {
  Connector& connector = *self.connector;
  const HeldBuffer held = hold_buffer(data);
  const PutOptions options{.timeout = milliseconds(timeout), .encoded_object = true};
  const auto put = [&]() -> Result<PutResult> {
    auto buffer = connector.allocate(held.bytes.size(), options);
    if (!buffer) return buffer.error();
    std::copy(held.bytes.begin(), held.bytes.end(), buffer->bytes().begin());
    return connector.put(from, to, key, std::move(*buffer), options);
  };
  return dict_of(value_or_raise(without_gil(put)).metadata);
}

nb::object prepare(const OpenConnector& self, nb::handle object, string_view tensors, double timeout) {
  Connector& connector = *self.connector;
  const Framework framework = framework_of(tensors);
  const HeldValue held = import_value(object);
  const auto encoded = [&]() -> Result<PoolBuffer> {
    const auto size = encoded_size(held.value);
    if (!size) return size.error();
    auto buffer = connector.allocate(*size, {.timeout = milliseconds(timeout)});
    if (!buffer) return buffer.error();
    if (const auto written = encode(held.value, buffer->bytes()); !written) return written.error();
    return buffer;
  };
  Block block(value_or_raise(without_gil(encoded)), true);
  const auto owner = block.array()->owner;
  const Value value = value_or_raise(without_gil([&] { return decode(block.bytes()); }));
  nb::object views = export_value(value, owner, framework, true);
  return nb::make_tuple(nb::cast(std::move(block)), views);
}

Received get(const OpenConnector& self, string_view from, string_view to, string_view key, double timeout,
             const std::optional<nb::dict>& metadata) {
  Connector& connector = *self.connector;
  GetOptions options{.timeout = milliseconds(timeout)};
  if (metadata) options.metadata = metadata_of(*metadata);
  return Received(value_or_raise(without_gil([&] { return connector.get(from, to, key, options); })));
}

// get() for those who poll, most of whose looks find nothing: no exception then.
std::optional<Received> look(const OpenConnector& self, string_view from, string_view to, string_view key,
                             const std::optional<nb::dict>& metadata) {
  Connector& connector = *self.connector;
  GetOptions options;
  if (metadata) options.metadata = metadata_of(*metadata);
  auto got = without_gil([&] { return connector.get(from, to, key, options); });
  if (!got && got.error().code() == ErrorCode::not_found) return std::nullopt;
  return Received(value_or_raise(std::move(got)));
}

void watch(const OpenConnector& self, string_view from, string_view to, string_view key, bool notify) {
  Connector& connector = *self.connector;
  std::function<void(Status)> callback;
  if (notify) callback = [changes = self.changes](const Status&) { changes->happened(); };
  raise_if_failed(without_gil([&] { return connector.watch(from, to, key, std::move(callback)); }));
}

void cleanup(const OpenConnector& self, string_view request_id, std::optional<string_view> from,
             std::optional<string_view> to) {
  raise_if_failed(without_gil([&] { return self.connector->cleanup(request_id, from, to); }));
}

std::unique_ptr<OpenConnector> create(const ConnectorConfig& config) {
  auto made = value_or_raise(without_gil([&] { return Connector::create(config); }));
  return std::make_unique<OpenConnector>(closed_at_exit(std::move(made)));
}

void bind_sending(nb::class_<OpenConnector>& type) {
  type.def("put", put, nb::arg("from_stage"), nb::arg("to_stage"), nb::arg("key"), nb::arg("data").none(),
           nb::kw_only(), nb::arg("timeout") = 0.0, nb::arg("as_object") = false,
           "Publishes bytes, a tensor, a PoolBuffer or an object of nested plain values and tensors; returns "
           "the "
           "metadata for the receiver. Waits up to `timeout` seconds for space. `as_object`: bytes and "
           "tensors, too, arrive as an object.",
           nb::sig("def put(self, from_stage: str, to_stage: str, key: str, data: typing.Any, *, timeout: "
                   "float = 0.0) "
                   "-> dict[str, typing.Any]"))
      .def("put_encoded", put_encoded, nb::arg("from_stage"), nb::arg("to_stage"), nb::arg("key"),
           nb::arg("data"), nb::kw_only(), nb::arg("timeout") = 0.0,
           "Publishes bytes that encode() or vLLM-Omni's OmniSerializer wrote, which arrive as an object.",
           nb::sig("def put_encoded(self, from_stage: str, to_stage: str, key: str, data: typing.Any, *, "
                   "timeout: float "
                   "= 0.0) -> dict[str, typing.Any]"))
      .def(
          "allocate",
          [](const OpenConnector& self, std::size_t size, double timeout) {
            const PutOptions options{.timeout = milliseconds(timeout)};
            return Block(
                value_or_raise(without_gil([&] { return self.connector->allocate(size, options); })));
          },
          nb::arg("size"), nb::kw_only(), nb::arg("timeout") = 0.0,
          "A block of the pool, to be filled and put.")
      .def("prepare", prepare, nb::arg("obj"), nb::kw_only(), nb::arg("tensors") = "auto",
           nb::arg("timeout") = 0.0,
           "Lays the object out in a block of the pool: the block, to be put, and the object with its "
           "tensors in it. "
           "Fill these, and the put copies nothing.",
           nb::sig("def prepare(self, obj: typing.Any, *, tensors: str = 'auto', timeout: float = 0.0) -> "
                   "tuple[PoolBuffer, typing.Any]"))
      .def(
          "abort",
          [](const OpenConnector& self, string_view from, string_view to, string_view key,
             string_view reason) { without_gil([&] { self.connector->abort(from, to, key, reason); }); },
          nb::arg("from_stage"), nb::arg("to_stage"), nb::arg("key"), nb::arg("reason"),
          "Gives the key up: its receiver gets Cancelled with the reason.")
      .def("cleanup", cleanup, nb::arg("request_id"), nb::arg("from_stage").none() = nb::none(),
           nb::arg("to_stage").none() = nb::none(), "Drops what was put under the key and not taken.")
      .def(
          "drain",
          [](const OpenConnector& self, double timeout) {
            raise_if_failed(without_gil([&] { return self.connector->drain(milliseconds(timeout)); }));
          },
          nb::arg("timeout"), "Waits until everything that was put has been taken, dropped or has expired.");
}

void bind_receiving(nb::class_<OpenConnector>& type) {
  type.def("get", get, nb::arg("from_stage"), nb::arg("to_stage"), nb::arg("key"), nb::kw_only(),
           nb::arg("timeout") = 0.0, nb::arg("metadata").none() = nb::none(),
           "The payload of the key, which is waited for up to `timeout` seconds. Raises NotFound or Timeout "
           "when it is "
           "not there, Unavailable when its sender is gone.",
           nb::sig(
               "def get(self, from_stage: str, to_stage: str, key: str, *, timeout: float = 0.0, metadata: "
               "dict[str, typing.Any] | None = None) -> Delivery"))
      .def("look", look, nb::arg("from_stage"), nb::arg("to_stage"), nb::arg("key"), nb::kw_only(),
           nb::arg("metadata").none() = nb::none(),
           "get() without waiting; None when it is not there. From the second look on that is known here, "
           "without a "
           "question to the sender.",
           nb::sig("def look(self, from_stage: str, to_stage: str, key: str, *, metadata: dict[str, "
                   "typing.Any] | None "
                   "= None) -> Delivery | None"))
      .def("watch", watch, nb::arg("from_stage"), nb::arg("to_stage"), nb::arg("key"), nb::kw_only(),
           nb::arg("notify") = false,
           "Tells the sender beforehand that the key is wanted. `notify`: wait_for_change() ends when it is "
           "there, or "
           "never will be.")
      .def(
          "abandon_get",
          [](const OpenConnector& self, string_view from, string_view to, string_view key) {
            without_gil([&] { self.connector->abandon_get(from, to, key); });
          },
          nb::arg("from_stage"), nb::arg("to_stage"), nb::arg("key"),
          "The key is not wanted any more: gets that wait end with Cancelled.")
      .def_prop_ro(
          "changes", [](const OpenConnector& self) { return self.changes->count(); },
          "How often something that was watched with `notify` has come.")
      .def(
          "wait_for_change",
          [](const OpenConnector& self, std::uint64_t seen, double timeout) {
            return without_gil([&] { return self.changes->wait(seen, milliseconds(timeout)); });
          },
          nb::arg("seen"), nb::arg("timeout"), "Waits until `changes` is not `seen` any more; returns it.")
      .def(
          "update_sender_info",
          [](const OpenConnector& self, string_view host, int port) {
            without_gil([&] { self.connector->update_sender_info(host, port); });
          },
          nb::arg("host"), nb::arg("port"));
}

using Settings = std::map<std::string, std::string, std::less<>>;

void bind_creation(nb::class_<OpenConnector>& type) {
  const ConnectorConfig defaults;
  type.def(nb::new_([](int stage_id, string_view role, std::string host, int zmq_port,
                       std::string backend_type, Settings backend_settings, std::uint64_t memory_pool_size,
                       std::string memory_pool_device, std::string sender_host, int sender_zmq_port,
                       double buffer_ttl_s, double original_timeout_s, double lease_share, std::string route,
                       std::string secret_key, std::string fault_spec) {
             ConnectorConfig config;
             config.stage_id = stage_id;
             config.role = role_of(role);
             config.host = std::move(host);
             config.zmq_port = zmq_port;
             config.backend_type = std::move(backend_type);
             config.backend_settings = std::move(backend_settings);
             config.memory_pool_size = memory_pool_size;
             config.memory_pool_device = std::move(memory_pool_device);
             config.sender_host = std::move(sender_host);
             config.sender_zmq_port = sender_zmq_port;
             config.buffer_ttl_s = buffer_ttl_s;
             config.original_timeout_s = original_timeout_s;
             config.lease_share = lease_share;
             config.route = std::move(route);
             config.secret_key = std::move(secret_key);
             config.fault_spec = std::move(fault_spec);
             return create(config);
           }),
           nb::kw_only(), nb::arg("stage_id") = defaults.stage_id, nb::arg("role") = "sender",
           nb::arg("host") = defaults.host, nb::arg("zmq_port") = defaults.zmq_port,
           nb::arg("backend_type") = defaults.backend_type, nb::arg("backend_settings") = Settings(),
           nb::arg("memory_pool_size") = defaults.memory_pool_size,
           nb::arg("memory_pool_device") = defaults.memory_pool_device, nb::arg("sender_host") = "",
           nb::arg("sender_zmq_port") = 0, nb::arg("buffer_ttl_s") = defaults.buffer_ttl_s,
           nb::arg("original_timeout_s") = defaults.original_timeout_s,
           nb::arg("lease_share") = defaults.lease_share, nb::arg("route") = defaults.route,
           nb::arg("secret_key") = "", nb::arg("fault_spec") = "", "docs/config.md describes each key.");
}

}  // namespace

void bind_connector(nb::module_& module) {
  bind_deliveries(module);
  nb::class_<OpenConnector> type(
      module, "Connector", nb::is_weak_referenceable(),
      "Named payloads between the stages of a pipeline; one for each stage.\n\n"
      "Every method may be called from any thread; those that can wait let others run.");
  bind_creation(type);
  bind_sending(type);
  bind_receiving(type);
  type.def(
          "health",
          [](const OpenConnector& self) {
            return dict_of(without_gil([&] { return self.connector->health(); }));
          },
          "Counters and the state of the pool; docs/config.md says what each means.",
          nb::sig("def health(self) -> dict[str, typing.Any]"))
      .def_prop_ro(
          "host", [](const OpenConnector& self) { return self.connector->connection_info().host; },
          "Where it listens.")
      .def_prop_ro("zmq_port",
                   [](const OpenConnector& self) { return self.connector->connection_info().zmq_port; })
      .def_prop_ro("engine_key",
                   [](const OpenConnector& self) { return self.connector->connection_info().engine_key; })
      .def(
          "close",
          [](const OpenConnector& self) {
            if (self.connector.is_ours()) without_gil([&] { self.connector->close(); });
          },
          "Ends everything that waits. Deliveries and buffers that are still held stay valid.")
      .def(
          "__enter__", [](nb::handle self) { return self; }, nb::sig("def __enter__(self) -> Connector"))
      .def(
          "__exit__",
          [](const OpenConnector& self, const nb::args&) {
            if (self.connector.is_ours()) without_gil([&] { self.connector->close(); });
          },
          nb::sig("def __exit__(self, *exc: typing.Any) -> None"));
}

}  // namespace stagewire::python
