#include "stagewire/engine.hpp"

#include <map>

#include "array.hpp"
#include "at_exit.hpp"

namespace stagewire::python {
namespace {

using std::string_view;
using Settings = std::map<std::string, std::string, std::less<>>;
using Pieces = std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>;

struct OpenEngine {
  Owned<IOEngine> engine;
  /// Registered memory of the caller's, by the id of its descriptor. With the GIL.
  std::map<std::uint32_t, std::shared_ptr<const void>> registered;
};

/// Memory of the engine's; views of it keep the engine, too.
struct Memory {
  std::shared_ptr<IOEngine> engine;
  std::unique_ptr<EngineMemory> memory;
};

/// One transfer, and what it must not lose before it has ended.
struct Running {
  Transfer transfer;
  std::shared_ptr<IOEngine> engine;
};

struct OpenSession {
  std::shared_ptr<Session> session;
  std::shared_ptr<IOEngine> engine;
};

Access access_of(string_view name) {
  const std::pair<string_view, Access> all[] = {{"local_only", Access::local_only},
                                                {"remote_read", Access::remote_read},
                                                {"remote_write", Access::remote_write},
                                                {"remote_read_write", Access::remote_read_write}};
  for (const auto& [known, access] : all) {
    if (known == name) return access;
  }
  throw Raised(Error(ErrorCode::invalid_argument,
                     "access: " + std::string(name) +
                         " is none of local_only, remote_read, remote_write, remote_read_write"));
}

nb::bytes bytes_of(const std::vector<std::byte>& packed) {
  return nb::bytes(packed.data(), packed.size());
}

template <typename Desc>
Desc unpacked(const nb::bytes& packed) {
  return value_or_raise(Desc::unpack({static_cast<const std::byte*>(packed.data()), packed.size()}));
}

std::vector<TransferPiece> pieces_of(const Pieces& pieces) {
  std::vector<TransferPiece> result;
  result.reserve(pieces.size());
  for (const auto& [local, remote, size] : pieces) result.push_back({local, remote, size});
  return result;
}

TransferOptions options_of(std::uint32_t id, bool notify, double timeout) {
  return {.timeout = milliseconds(timeout), .id = id, .notify = notify};
}

std::shared_ptr<Array> array_of(const std::shared_ptr<Memory>& memory) {
  auto array = std::make_shared<Array>();
  const std::span<std::byte> bytes = memory->memory->bytes();
  array->view = {
      .dtype = DType::uint8, .shape = {static_cast<std::int64_t>(bytes.size())}, .data = bytes.data()};
  array->size = bytes.size();
  array->owner = memory;
  array->writable = true;
  return array;
}

MemoryDesc register_memory(OpenEngine& self, const nb::object& data, string_view access) {
  const HeldBuffer held = hold_buffer(data);
  const Access granted = access_of(access);
  if (!held.writable && allows_write(granted)) {
    throw Raised(Error(ErrorCode::invalid_argument, "read-only memory cannot be registered for writing"));
  }
  const MemoryRegion region{.data = held.bytes.data(), .size = held.bytes.size()};
  auto desc = value_or_raise(without_gil([&] { return self.engine->register_memory(region, granted); }));
  self.registered[desc.id] = held.owner;
  return desc;
}

void deregister_memory(OpenEngine& self, const MemoryDesc& desc, double timeout) {
  raise_if_failed(without_gil([&] { return self.engine->deregister_memory(desc, milliseconds(timeout)); }));
  self.registered.erase(desc.id);
}

void bind_descriptors(nb::module_& module) {
  nb::class_<EngineDesc>(module, "EngineDesc",
                         "What an engine tells others of itself; pack() gives MORI-IO's form.")
      .def_ro("key", &EngineDesc::key)
      .def_ro("node_id", &EngineDesc::node_id)
      .def_ro("hostname", &EngineDesc::hostname)
      .def_ro("host", &EngineDesc::host)
      .def_ro("port", &EngineDesc::port)
      .def_ro("pid", &EngineDesc::pid)
      .def("pack", [](const EngineDesc& self) { return bytes_of(self.pack()); })
      .def_static("unpack", unpacked<EngineDesc>, nb::arg("packed"))
      .def("__eq__", [](const EngineDesc& self, const EngineDesc& other) { return self == other; });
  nb::class_<MemoryDesc>(module, "MemoryDesc",
                         "What an engine tells others of a region; pack() gives MORI-IO's form.")
      .def_ro("engine_key", &MemoryDesc::engine_key)
      .def_ro("id", &MemoryDesc::id)
      .def_ro("device_id", &MemoryDesc::device_id)
      .def_ro("data", &MemoryDesc::data)
      .def_ro("size", &MemoryDesc::size)
      .def("pack", [](const MemoryDesc& self) { return bytes_of(self.pack()); })
      .def_static("unpack", unpacked<MemoryDesc>, nb::arg("packed"))
      .def("__eq__", [](const MemoryDesc& self, const MemoryDesc& other) { return self == other; });
}

void bind_transfers(nb::module_& module) {
  nb::class_<Memory>(
      module, "EngineMemory", nb::is_weak_referenceable(),
      "Host memory that peers on this host can share, registered with its engine. Views keep it.")
      .def_prop_ro("desc", [](const Memory& self) { return self.memory->desc(); })
      .def_prop_ro("raw", array_of, "The bytes, as uint8, to be read and written.");
  nb::class_<Running>(module, "Transfer", "One transfer; it goes on when this is dropped.")
      .def_prop_ro("id", [](const Running& self) { return self.transfer->id(); })
      .def_prop_ro(
          "state",
          [](const Running& self) {
            const TransferState state = self.transfer->state();
            return state == TransferState::pending ? "pending"
                   : state == TransferState::done  ? "done"
                                                   : "failed";
          },
          "\"pending\", \"done\" or \"failed\".")
      .def_prop_ro("message", [](const Running& self) { return self.transfer->message(); })
      .def(
          "wait",
          [](const Running& self, double timeout) {
            raise_if_failed(without_gil([&] { return self.transfer->wait_for(milliseconds(timeout)); }));
          },
          nb::arg("timeout"),
          "Until it has ended: returns when it is done, raises what it failed with, or Timeout.")
      .def("cancel", [](const Running& self) { without_gil([&] { self.transfer->cancel(); }); })
      .def(
          "wait_quiet",
          [](const Running& self, double timeout) {
            raise_if_failed(without_gil([&] { return self.transfer->wait_quiet(milliseconds(timeout)); }));
          },
          nb::arg("timeout"), "Until no byte of it will be moved any more.");
  nb::class_<OpenSession>(module, "Session", "A pair of regions that is used again and again.")
      .def(
          "read",
          [](const OpenSession& self, const Pieces& pieces, std::uint32_t id, bool notify, double timeout) {
            return Running{self.session->read(pieces_of(pieces), options_of(id, notify, timeout)),
                           self.engine};
          },
          nb::arg("pieces"), nb::kw_only(), nb::arg("id") = 0, nb::arg("notify") = false,
          nb::arg("timeout") = 30.0)
      .def(
          "write",
          [](const OpenSession& self, const Pieces& pieces, std::uint32_t id, bool notify, double timeout) {
            return Running{self.session->write(pieces_of(pieces), options_of(id, notify, timeout)),
                           self.engine};
          },
          nb::arg("pieces"), nb::kw_only(), nb::arg("id") = 0, nb::arg("notify") = false,
          nb::arg("timeout") = 30.0)
      .def_prop_ro("alive", [](const OpenSession& self) { return self.session->alive(); })
      .def_prop_ro("route", [](const OpenSession& self) { return self.session->route(); });
}

void bind_memory_calls(nb::class_<OpenEngine>& type) {
  type.def_prop_ro("desc", [](const OpenEngine& self) { return self.engine->desc(); })
      .def(
          "allocate",
          [](const OpenEngine& self, std::size_t size, string_view access) {
            const Access granted = access_of(access);
            auto memory = value_or_raise(without_gil([&] { return self.engine->allocate(size, granted); }));
            return std::make_shared<Memory>(Memory{self.engine.get(), std::move(memory)});
          },
          nb::arg("size"), nb::arg("access") = "remote_read")
      .def("register_memory", register_memory, nb::arg("data"), nb::arg("access") = "remote_read",
           "Registers bytes-like memory, which is kept until it is deregistered; only this process can reach "
           "it.",
           nb::sig("def register_memory(self, data: typing.Any, access: str = 'remote_read') -> MemoryDesc"))
      .def("deregister_memory", deregister_memory, nb::arg("desc"), nb::arg("timeout") = 30.0)
      .def(
          "register_remote_engine",
          [](const OpenEngine& self, const EngineDesc& desc) {
            raise_if_failed(without_gil([&] { return self.engine->register_remote_engine(desc); }));
          },
          nb::arg("desc"))
      .def(
          "deregister_remote_engine",
          [](const OpenEngine& self, const EngineDesc& desc) {
            raise_if_failed(without_gil([&] { return self.engine->deregister_remote_engine(desc); }));
          },
          nb::arg("desc"))
      .def(
          "create_session",
          [](const OpenEngine& self, const MemoryDesc& local, const MemoryDesc& remote) {
            auto session =
                value_or_raise(without_gil([&] { return self.engine->create_session(local, remote); }));
            return OpenSession{std::move(session), self.engine.get()};
          },
          nb::arg("local"), nb::arg("remote"));
}

template <bool writes>
Running transfer(const OpenEngine& self, const MemoryDesc& local, std::uint64_t local_offset,
                 const MemoryDesc& remote, std::uint64_t remote_offset, std::uint64_t size, std::uint32_t id,
                 bool notify, double timeout) {
  IOEngine& engine = *self.engine;
  const TransferOptions options = options_of(id, notify, timeout);
  return {without_gil([&] {
            return writes ? engine.write(local, local_offset, remote, remote_offset, size, options)
                          : engine.read(local, local_offset, remote, remote_offset, size, options);
          }),
          self.engine.get()};
}

template <bool writes>
Running batch(const OpenEngine& self, const MemoryDesc& local, const MemoryDesc& remote, const Pieces& pieces,
              std::uint32_t id, bool notify, double timeout) {
  IOEngine& engine = *self.engine;
  const std::vector<TransferPiece> all = pieces_of(pieces);
  const TransferOptions options = options_of(id, notify, timeout);
  return {without_gil([&] {
            return writes ? engine.batch_write(local, remote, all, options)
                          : engine.batch_read(local, remote, all, options);
          }),
          self.engine.get()};
}

template <bool writes>
void bind_transfer_calls(nb::class_<OpenEngine>& type, const char* one, const char* many) {
  type.def(one, transfer<writes>, nb::arg("local"), nb::arg("local_offset"), nb::arg("remote"),
           nb::arg("remote_offset"), nb::arg("size"), nb::kw_only(), nb::arg("id") = 0,
           nb::arg("notify") = false, nb::arg("timeout") = 30.0)
      .def(many, batch<writes>, nb::arg("local"), nb::arg("remote"), nb::arg("pieces"), nb::kw_only(),
           nb::arg("id") = 0, nb::arg("notify") = false, nb::arg("timeout") = 30.0,
           "One transfer of many pieces, each (local offset, remote offset, bytes).");
}

void bind_creation(nb::class_<OpenEngine>& type) {
  type.def(
      nb::new_([](std::string key, std::string host, int port, std::vector<std::string> backends,
                  Settings backend_settings, std::string secret_key) {
        IOEngineConfig config;
        config.key = std::move(key);
        config.host = std::move(host);
        config.port = port;
        config.backends = std::move(backends);
        config.backend_settings = std::move(backend_settings);
        config.secret_key = std::move(secret_key);
        auto made = value_or_raise(without_gil([&] { return IOEngine::create(config); }));
        return std::make_unique<OpenEngine>(OpenEngine{Owned<IOEngine>(closed_at_exit(std::move(made))), {}});
      }),
      nb::kw_only(), nb::arg("key") = "", nb::arg("host") = "127.0.0.1", nb::arg("port") = 0,
      nb::arg("backends") = std::vector<std::string>(), nb::arg("backend_settings") = Settings(),
      nb::arg("secret_key") = "");
}

}  // namespace

void bind_engine(nb::module_& module) {
  bind_descriptors(module);
  bind_transfers(module);
  nb::class_<OpenEngine> type(module, "IOEngine", nb::is_weak_referenceable(),
                              "Reads and writes the registered memory of other engines.");
  bind_creation(type);
  bind_memory_calls(type);
  bind_transfer_calls<false>(type, "read", "batch_read");
  bind_transfer_calls<true>(type, "write", "batch_write");
  type.def("allocate_transfer_id", [](const OpenEngine& self) { return self.engine->allocate_transfer_id(); })
      .def(
          "pop_inbound",
          [](const OpenEngine& self, string_view peer_key, std::uint32_t id) {
            return without_gil([&] { return self.engine->pop_inbound(peer_key, id); });
          },
          nb::arg("peer_key"), nb::arg("id"),
          "True once for each transfer of the peer's that has arrived whole.")
      .def(
          "wait_inbound",
          [](const OpenEngine& self, string_view peer_key, std::uint32_t id, double timeout) {
            raise_if_failed(
                without_gil([&] { return self.engine->wait_inbound(peer_key, id, milliseconds(timeout)); }));
          },
          nb::arg("peer_key"), nb::arg("id"), nb::arg("timeout"))
      .def("close",
           [](const OpenEngine& self) {
             if (self.engine.is_ours()) without_gil([&] { self.engine->close(); });
           })
      .def(
          "__enter__", [](nb::handle self) { return self; }, nb::sig("def __enter__(self) -> IOEngine"))
      .def(
          "__exit__",
          [](const OpenEngine& self, const nb::args&) {
            if (self.engine.is_ours()) without_gil([&] { self.engine->close(); });
          },
          nb::sig("def __exit__(self, *exc: typing.Any) -> None"));
}

}  // namespace stagewire::python
