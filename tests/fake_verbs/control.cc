#include "fake_verbs/control.hpp"

#include "fake_verbs/export.hpp"
#include "fake_verbs/world.hpp"

namespace stagewire::fake_verbs {
namespace {

void set_devices(int count) {
  World& world = World::get();
  const Lock lock(world.mutex);
  require(count >= 0 && static_cast<std::size_t>(count) <= world.devices.size(), "there are at most ",
          world.devices.size(), " devices");
  world.device_count = count;
}

void set_limits(const Limits& limits) {
  World& world = World::get();
  const Lock lock(world.mutex);
  world.limits = limits;
}

void pause(bool on) {
  World& world = World::get();
  const Lock lock(world.mutex);
  world.paused = on;
  if (on) return;
  for (const auto& [number, pair] : world.pairs) world.make_ready(*pair);
}

void reset() {
  World& world = World::get();
  {
    const Lock lock(world.mutex);
    for (const auto& [name, function] : world.functions) {
      require(function.waiting == 0, "somebody waits in ", name, " still");
    }
    world.functions.clear();
    world.limits = {};
    world.device_count = 1;
    world.fail_request_in = 0;
    world.device_memory = nullptr;
    world.device_memory_size = 0;
    for (Device& device : world.devices) {
      device.network = device.port_active = true;
      device.requests_done = 0;
    }
    world.something_changed();
  }
  pause(false);
}

void fail(const char* function, int nth, int problem, bool always) {
  World& world = World::get();
  const Lock lock(world.mutex);
  World::Function& failing = world.functions[function];
  failing.fail_in = nth;
  failing.problem = problem;
  failing.always = always;
}

void fail_call(const char* function, int nth, int problem) {
  fail(function, nth, problem, false);
}

void fail_calls_from(const char* function, int nth, int problem) {
  fail(function, problem == 0 ? 0 : nth, problem, true);
}

int calls(const char* function) {
  World& world = World::get();
  const Lock lock(world.mutex);
  return world.functions[function].calls;
}

void hold(const char* function) {
  World& world = World::get();
  const Lock lock(world.mutex);
  world.functions[function].held = true;
}

void release(const char* function) {
  World& world = World::get();
  const Lock lock(world.mutex);
  world.functions[function].held = false;
  world.changed.notify_all();
}

int waiting(const char* function) {
  World& world = World::get();
  const Lock lock(world.mutex);
  return world.functions[function].waiting;
}

void fail_request(int nth, ibv_wc_status status, std::uint32_t vendor_error) {
  World& world = World::get();
  const Lock lock(world.mutex);
  world.fail_request_in = nth;
  world.fail_status = status;
  world.fail_vendor_error = vendor_error;
}

bool request_failed() {
  World& world = World::get();
  const Lock lock(world.mutex);
  return world.fail_request_in == 0;
}

int requests_done(int device) {
  World& world = World::get();
  const Lock lock(world.mutex);
  return world.devices.at(static_cast<std::size_t>(device)).requests_done;
}

void set_network(int device, bool up) {
  World& world = World::get();
  const Lock lock(world.mutex);
  world.devices.at(static_cast<std::size_t>(device)).network = up;
  world.something_changed();
}

void set_port(int device, bool up) {
  set_network(device, up);
  World& world = World::get();
  const Lock lock(world.mutex);
  world.devices[static_cast<std::size_t>(device)].port_active = up;
  for (Context* context : world.contexts) {
    if (context->on->index != device) continue;
    ibv_async_event event{};
    event.event_type = up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
    event.element.port_num = 1;
    context->events.push_back(event);
    context->file.announce();
  }
}

void set_device_memory(const void* begin, std::size_t size) {
  World& world = World::get();
  const Lock lock(world.mutex);
  world.device_memory = begin;
  world.device_memory_size = size;
}

void fail_datagrams(int device) {
  World& world = World::get();
  const Lock lock(world.mutex);
  for (const auto& [number, pair] : world.pairs) {
    const bool its = of(pair->context).on->index == device;
    if (its && pair->qp_type == IBV_QPT_UD) world.to_error(*pair);
  }
}

std::size_t live(const char* kind) {
  World& world = World::get();
  const Lock lock(world.mutex);
  return world.live[kind];
}

constexpr Control kControl = {set_devices,   set_limits,  reset,    fail_call,         fail_calls_from, calls,
                              hold,          release,     waiting,  fail_request,      request_failed,  pause,
                              requests_done, set_network, set_port, set_device_memory, fail_datagrams,  live};

}  // namespace

FAKE_VERBS const Control* fake_verbs_control() {
  return &kControl;
}

}  // namespace stagewire::fake_verbs
