// libibverbs as the independent peer opens it.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <type_traits>

#include "rdma/independent_peer.hpp"
#include "rdma/independent_wire.hpp"

namespace stagewire::rdma_test {

struct IndependentPeer::Verbs {
  ibv_device** (*get_device_list)(int*);
  void (*free_device_list)(ibv_device**);
  ibv_context* (*open_device)(ibv_device*);
  int (*close_device)(ibv_context*);
  int (*query_gid)(ibv_context*, std::uint8_t, int, union ibv_gid*);
  ibv_pd* (*alloc_pd)(ibv_context*);
  int (*dealloc_pd)(ibv_pd*);
  ibv_mr* (*reg_mr)(ibv_pd*, void*, std::size_t, int);
  int (*dereg_mr)(ibv_mr*);
  ibv_cq* (*create_cq)(ibv_context*, int, void*, ibv_comp_channel*, int);
  int (*destroy_cq)(ibv_cq*);
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*);
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int);
  int (*destroy_qp)(ibv_qp*);

  static const Verbs* open() {
    static const Verbs verbs = [] {
      const char* named = std::getenv("STAGEWIRE_IBVERBS");
      void* library = ::dlopen(named != nullptr ? named : "libibverbs.so.1", RTLD_NOW);
      if (library == nullptr) fail(::dlerror());
      Verbs found{};
      const auto look = [library](const char* name, auto& function) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
        if (function == nullptr) fail(std::string("no ") + name);
      };
      look("ibv_get_device_list", found.get_device_list);
      look("ibv_free_device_list", found.free_device_list);
      look("ibv_open_device", found.open_device);
      look("ibv_close_device", found.close_device);
      look("ibv_query_gid", found.query_gid);
      look("ibv_alloc_pd", found.alloc_pd);
      look("ibv_dealloc_pd", found.dealloc_pd);
      look("ibv_reg_mr", found.reg_mr);
      look("ibv_dereg_mr", found.dereg_mr);
      look("ibv_create_cq", found.create_cq);
      look("ibv_destroy_cq", found.destroy_cq);
      look("ibv_create_qp", found.create_qp);
      look("ibv_modify_qp", found.modify_qp);
      look("ibv_destroy_qp", found.destroy_qp);
      return found;
    }();
    return &verbs;
  }
};

}  // namespace stagewire::rdma_test
