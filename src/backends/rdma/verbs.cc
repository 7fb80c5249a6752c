#include "backends/rdma/verbs.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

constexpr const char* kLibrary = "libibverbs.so.1";

// Looks up one function after the other; remembers the first that is not there.
class Lookup {
 public:
  explicit Lookup(void* library) : library_(library) {}
  template <typename Function>
  void need(const char* name, Function& function) {
    want(name, function);
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  template <typename Function>
  void want(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
  }
  const std::string& missing() const { return missing_; }

 private:
  void* const library_;
  std::string missing_;
};

Result<Verbs> load() {
  const char* named = std::getenv("STAGEWIRE_IBVERBS");
  const std::string file = named == nullptr || *named == '\0' ? kLibrary : named;
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return base::error(ErrorCode::unsupported, "RDMA needs ", file, ": ", ::dlerror(),
                       "; install it with: apt-get install ibverbs-providers");
  }
  Verbs verbs;
  Lookup lookup(library);
  lookup.need("ibv_get_device_list", verbs.get_device_list);
  lookup.need("ibv_free_device_list", verbs.free_device_list);
  lookup.need("ibv_get_device_name", verbs.get_device_name);
  lookup.need("ibv_open_device", verbs.open_device);
  lookup.need("ibv_close_device", verbs.close_device);
  lookup.need("ibv_query_device", verbs.query_device);
  lookup.need("ibv_query_gid", verbs.query_gid);
  lookup.need("ibv_get_async_event", verbs.get_async_event);
  lookup.need("ibv_ack_async_event", verbs.ack_async_event);
  lookup.need("ibv_alloc_pd", verbs.alloc_pd);
  lookup.need("ibv_dealloc_pd", verbs.dealloc_pd);
  lookup.need("ibv_reg_mr", verbs.reg_mr);
  lookup.need("ibv_dereg_mr", verbs.dereg_mr);
  lookup.need("ibv_create_comp_channel", verbs.create_comp_channel);
  lookup.need("ibv_destroy_comp_channel", verbs.destroy_comp_channel);
  lookup.need("ibv_create_cq", verbs.create_cq);
  lookup.need("ibv_destroy_cq", verbs.destroy_cq);
  lookup.need("ibv_get_cq_event", verbs.get_cq_event);
  lookup.need("ibv_ack_cq_events", verbs.ack_cq_events);
  lookup.need("ibv_create_qp", verbs.create_qp);
  lookup.need("ibv_modify_qp", verbs.modify_qp);
  lookup.need("ibv_destroy_qp", verbs.destroy_qp);
  lookup.need("ibv_create_ah", verbs.create_ah);
  lookup.need("ibv_destroy_ah", verbs.destroy_ah);
  lookup.need("ibv_wc_status_str", verbs.wc_status_str);
  lookup.need("ibv_event_type_str", verbs.event_type_str);
  lookup.want("_ibv_query_gid_ex", verbs.query_gid_ex);
  lookup.want("ibv_reg_dmabuf_mr", verbs.reg_dmabuf_mr);
  if (!lookup.missing().empty()) {
    return base::error(ErrorCode::unsupported, "RDMA: ", file, " has no function ", lookup.missing(),
                       "; it is too old, or no libibverbs");
  }
  return verbs;
}

}  // namespace

Result<const Verbs*> Verbs::open() {
  static const Result<Verbs> loaded = load();
  if (!loaded) return loaded.error();
  return &*loaded;
}

int Verbs::query_port(ibv_context* context, std::uint8_t port, ibv_port_attr& attributes) {
  std::memset(&attributes, 0, sizeof attributes);
  verbs_context* const table = verbs_get_ctx(context);
  constexpr std::size_t kSizeWithIt = sizeof(verbs_context) - offsetof(verbs_context, query_port);
  if (table == nullptr || table->sz < kSizeWithIt || table->query_port == nullptr) return EOPNOTSUPP;
  return table->query_port(context, port, &attributes, sizeof attributes);
}

}  // namespace stagewire::backends::rdma
