// What tests can do to the fake verbs library (libfake_ibverbs.so), which the rdma backend opens when
// STAGEWIRE_IBVERBS names it. The library simulates devices inside one process; whatever real verbs would not
// bear (a queue that is overfilled, a domain that is destroyed under its regions) aborts with a text that
// says what it was.
#pragma once

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace stagewire::fake_verbs {

/// What a device says of itself.
struct Limits {
  int completion_entries = 1 << 16;
  int work_requests = 1024;
  int segments = 16;
  int reads = 16;  ///< of a queue pair at once, asked and served
  std::uint32_t inline_size = 256;
  std::uint32_t message_size = 1U << 30;
  std::uint64_t region_size = 1ULL << 40;
};

/// Every function: any thread. A function of verbs is named without its "ibv_": "create_qp", "post_send".
struct Control {
  /// For backends that are created afterwards: devices "fake0", "fake1"... All reach one another.
  void (*set_devices)(int count);
  void (*set_limits)(const Limits& limits);
  /// Forgets every failure, gate, count and limit that was asked for; one device, whose port and network are
  /// up.
  void (*reset)();

  /// The nth call (from 1) of a function from now on fails with this errno. One at a time for each function.
  void (*fail_call)(const char* function, int nth, int problem);
  /// And all that follow, too; problem 0 ends it.
  void (*fail_calls_from)(const char* function, int nth, int problem);
  /// How often a function was called since reset().
  int (*calls)(const char* function);
  /// Callers of a function wait at its entrance until release(), after having looked at their arguments.
  void (*hold)(const char* function);
  void (*release)(const char* function);
  /// How many wait there now.
  int (*waiting)(const char* function);

  /// The nth request (from 1) of any reliable queue pair that is carried out from now on ends with this
  /// status instead, and with this vendor error.
  void (*fail_request)(int nth, ibv_wc_status status, std::uint32_t vendor_error);
  /// Whether that has happened.
  bool (*request_failed)();
  /// No request of a reliable queue pair is begun until it is resumed; posted ones gather.
  void (*pause)(bool on);
  /// Requests of a device's reliable queue pairs that were carried out since reset().
  int (*requests_done)(int device);

  /// Cut: reliable queue pairs of the device end with retries exceeded, by their own timeouts; datagrams are
  /// lost.
  void (*set_network)(int device, bool up);
  /// The same, with the event of the device that its port went down, or is up again.
  void (*set_port)(int device, bool up);

  /// This memory is a GPU's, which no module makes known to RDMA devices by its address. Until reset().
  void (*set_device_memory)(const void* begin, std::size_t size);
  /// All datagram queue pairs of a device fail: what is posted to them is flushed.
  void (*fail_datagrams)(int device);

  /// Objects that exist now: "device", "domain", "region", "channel", "completion_queue", "queue_pair",
  /// "address".
  std::size_t (*live)(const char* kind);
};

constexpr const char* kKinds[] = {"device",           "domain",     "region", "channel",
                                  "completion_queue", "queue_pair", "address"};

/// Of the library that STAGEWIRE_IBVERBS names.
inline const Control& control() {
  static const Control* const found = [] {
    void* library = ::dlopen(std::getenv("STAGEWIRE_IBVERBS"), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) std::abort();
    using Get = const Control* (*)();
    const auto get = reinterpret_cast<Get>(::dlsym(library, "fake_verbs_control"));
    if (get == nullptr) std::abort();
    return get();
  }();
  return *found;
}

}  // namespace stagewire::fake_verbs
