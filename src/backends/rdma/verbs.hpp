// libibverbs, opened at run time: this program starts on machines that do not have it.
//
// Posting, polling and arming go through the device's own table of functions (ibv_post_send() and its like
// are inline in the header); the rest is looked up here, once. The headers are needed to build, nothing else.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "stagewire/result.hpp"

// Macros over other symbols, which would hide the members below.
#undef ibv_query_port
#undef ibv_reg_mr

namespace stagewire::backends::rdma {

/// Every function that is not inline in the header, by its name without "ibv_". Constant after open().
struct Verbs {
  ibv_device** (*get_device_list)(int* count) = nullptr;
  void (*free_device_list)(ibv_device** list) = nullptr;
  const char* (*get_device_name)(ibv_device* device) = nullptr;
  ibv_context* (*open_device)(ibv_device* device) = nullptr;
  int (*close_device)(ibv_context* context) = nullptr;
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes) = nullptr;
  int (*query_gid)(ibv_context* context, std::uint8_t port, int index, union ibv_gid* gid) = nullptr;
  int (*get_async_event)(ibv_context* context, ibv_async_event* event) = nullptr;
  void (*ack_async_event)(ibv_async_event* event) = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context* context) = nullptr;
  int (*dealloc_pd)(ibv_pd* domain) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd* domain, void* address, std::size_t size, int access) = nullptr;
  int (*dereg_mr)(ibv_mr* region) = nullptr;
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel* channel) = nullptr;
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* cookie, ibv_comp_channel* channel,
                       int vector) = nullptr;
  int (*destroy_cq)(ibv_cq* queue) = nullptr;
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** cookie) = nullptr;
  void (*ack_cq_events)(ibv_cq* queue, unsigned count) = nullptr;
  ibv_qp* (*create_qp)(ibv_pd* domain, ibv_qp_init_attr* attributes) = nullptr;
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask) = nullptr;
  int (*destroy_qp)(ibv_qp* pair) = nullptr;
  ibv_ah* (*create_ah)(ibv_pd* domain, ibv_ah_attr* attributes) = nullptr;
  int (*destroy_ah)(ibv_ah* handle) = nullptr;
  const char* (*wc_status_str)(ibv_wc_status status) = nullptr;
  const char* (*event_type_str)(ibv_event_type event) = nullptr;
  /// 0 and the size of the kernel's structure; absent before libibverbs 1.11.
  int (*query_gid_ex)(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
                      std::uint32_t flags, std::size_t entry_size) = nullptr;

  /// Memory of another device, by its dma-buf; absent before libibverbs 1.12.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* domain, std::uint64_t offset, std::size_t size, std::uint64_t address,
                           int fd, int access) = nullptr;

  /// The library of this process, loaded by the first call and never unloaded. `unsupported` names what is
  /// missing and the package that has it. STAGEWIRE_IBVERBS names another file than libibverbs.so.1.
  static Result<const Verbs*> open();

  /// ibv_query_port() of the device's own table, in its full form; errno values.
  static int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr& attributes);
};

}  // namespace stagewire::backends::rdma
