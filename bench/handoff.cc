#include "handoff.hpp"

#include <zmq.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "die.hpp"
#include "partner.hpp"
#include "process_cost.hpp"
#include "row.hpp"
#include "stagewire/connector.hpp"
#include "yardsticks.hpp"

namespace stagewire::bench {
namespace {

constexpr std::uint64_t KiB = 1024;
constexpr std::uint64_t MiB = 1024 * KiB;
// A receiver that blocks is given this long to fall asleep before the put, so that the wake is measured.
constexpr double kFallAsleepUs = 50;
// And one that spins, to be in its wait again after it said that it is ready.
constexpr double kBeginToSpinUs = 5;

/// The cases, with the sizes to choose from where there are several.
struct Case {
  const char* name;
  std::vector<std::uint64_t> sizes;
};
const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases{{"eager-block", {}},
                                       {"eager-spin", {}},
                                       {"lease", {4 * KiB, 64 * KiB, MiB, 16 * MiB, 64 * MiB, 256 * MiB}},
                                       {"read", {64 * KiB, 256 * KiB, MiB, 4 * MiB, 16 * MiB, 64 * MiB}},
                                       {"zmq-ipc", {4 * KiB, 64 * KiB, MiB, 16 * MiB, 64 * MiB}},
                                       {"zmq-tcp", {4 * KiB, 64 * KiB, MiB, 16 * MiB, 64 * MiB}},
                                       {"idle", {}}};
  return cases;
}

std::string size_text(std::uint64_t size) {
  return size % MiB == 0 ? std::to_string(size / MiB) + "MiB" : std::to_string(size / KiB) + "KiB";
}

/// Times of one measurement, over all its rounds: percentiles within a round, then the median of the rounds.
struct Times {
  std::vector<double> p50;
  std::vector<double> p99;
  void add(std::vector<double> round) {
    p50.push_back(percentile(round, 0.5));
    p99.push_back(percentile(round, 0.99));
  }
};

class Handoff {
 public:
  explicit Handoff(const HandoffOptions& options) : options_(options) {}
  void run();

 private:
  bool wanted(const std::string& name) const {
    return options_.cases.empty() ||
           std::find(options_.cases.begin(), options_.cases.end(), name) != options_.cases.end();
  }
  std::vector<std::uint64_t> wanted_sizes(const std::string& name) const {
    std::vector<std::uint64_t> sizes =
        std::find_if(all_cases().begin(), all_cases().end(), [&](const Case& one) {
          return one.name == name;
        })->sizes;
    std::erase_if(sizes, [this](std::uint64_t size) {
      return !options_.sizes.empty() && std::count(options_.sizes.begin(), options_.sizes.end(), size) == 0;
    });
    return sizes;
  }
  void open(const std::string& route, WaitStrategy wait, std::uint64_t pool_size = 0);
  std::uint32_t count_for(std::uint64_t size, double us_each) const;
  std::vector<double> puts(std::uint64_t size, std::uint32_t count, bool asleep);
  std::vector<double> zmq_puts(void* socket, std::uint64_t size, std::uint32_t count);
  double stream(std::uint64_t size, std::uint32_t count, std::uint32_t window);
  Row row(const std::string& name, std::uint64_t size, const Times& ours) const;

  void small(const std::string& name, WaitStrategy wait, const std::string& yardstick,
             const std::function<std::vector<double>(int)>& measure);
  void leases();
  void reads();
  void against_zmq(const std::string& transport);
  void idle();

  HandoffOptions options_;
  Partner partner_;
  std::unique_ptr<Connector> connector_;
};

void Handoff::open(const std::string& route, WaitStrategy wait, std::uint64_t pool_size) {
  if (pool_size == 0) pool_size = options_.pool_size;
  connector_.reset();
  ConnectorConfig config;
  config.stage_id = 0;
  config.zmq_port = 0;
  config.memory_pool_size = pool_size;
  config.wait = wait;
  config.lease_share = 1;
  connector_ = checked(Connector::create(config));
  Request request;
  request.kind = Request::open;
  request.pool_size = pool_size;
  request.port = connector_->connection_info().zmq_port;
  request.wait = static_cast<std::uint32_t>(wait);
  std::snprintf(request.route, sizeof request.route, "%s", route.c_str());
  partner_.ask(request);
  connector_->update_sender_info("127.0.0.1", static_cast<int>(partner_.answer().at(0)));
  puts(KiB, 100, false);  // meets, maps, warms up
}

std::uint32_t Handoff::count_for(std::uint64_t size, double us_each) const {
  const double count = options_.seconds_per_round * 1e6 / (us_each + static_cast<double>(size) / 5e3);
  return static_cast<std::uint32_t>(std::clamp(count, 5.0, 5000.0));
}

void stamp(std::byte* bytes) {
  const double now = now_us();
  std::memcpy(bytes, &now, sizeof now);
}

// Each payload is put when the receiver waits for it. Small ones are put from the caller's memory, as a
// decode chunk is; large ones lie in a buffer of the pool, as a producer would fill it.
std::vector<double> Handoff::puts(std::uint64_t size, std::uint32_t count, bool asleep) {
  Request request;
  request.kind = Request::receive;
  request.size = size;
  request.count = count;
  partner_.ask(request);
  std::vector<std::byte> small(size <= 8 * KiB ? size : 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string key = std::to_string(i);
    PoolBuffer buffer;
    if (small.empty()) {
      buffer = checked(connector_->allocate(size, {.timeout = Milliseconds(60'000)}));
    }
    check(connector_->watch("1", "0", "go" + std::to_string(i + 1), nullptr));
    checked(connector_->get("1", "0", "go" + key, {.timeout = Milliseconds(60'000), .metadata = {}}));
    for (const double start = now_us(); now_us() - start < (asleep ? kFallAsleepUs : kBeginToSpinUs);) {
    }
    stamp(small.empty() ? buffer.bytes().data() : small.data());
    checked(small.empty() ? connector_->put("0", "1", key, std::move(buffer), {})
                          : connector_->put("0", "1", key, std::span<const std::byte>(small), {}));
  }
  connector_->abandon_get("1", "0", "go" + std::to_string(count));
  return partner_.answer();
}

// Bytes a second when the receiver watches `window` payloads ahead; the sender runs ahead as far as the pool
// allows, which is made to hold `window` payloads.
double Handoff::stream(std::uint64_t size, std::uint32_t count, std::uint32_t window) {
  Request request;
  request.kind = Request::stream;
  request.size = size;
  request.count = count;
  request.window = window;
  partner_.ask(request);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto buffer = checked(connector_->allocate(size, {.timeout = Milliseconds(60'000)}));
    checked(connector_->put("0", "1", std::to_string(i), std::move(buffer), {}));
  }
  return static_cast<double>(size) * (count - 1) / partner_.answer().at(0) / 1e3;
}

Row Handoff::row(const std::string& name, std::uint64_t size, const Times& ours) const {
  Row row;
  row.bench = "handoff";
  row.name = name;
  row.size = size;
  row.p50_us = median(ours.p50);
  row.p99_us = median(ours.p99);
  row.gb_per_s = static_cast<double>(size) / row.p50_us / 1e3;
  return row;
}

void Handoff::small(const std::string& name, WaitStrategy wait, const std::string& yardstick,
                    const std::function<std::vector<double>(int)>& measure) {
  if (!wanted(name)) return;
  open("auto", wait);
  const std::uint32_t count = count_for(4 * KiB, 100);
  Times ours;
  std::vector<double> theirs;
  for (int round = 0; round < options_.rounds; ++round) {
    theirs.push_back(median(measure(static_cast<int>(count))));
    ours.add(puts(4 * KiB, count, wait == WaitStrategy::block));
  }
  Row result = row(name, 4 * KiB, ours);
  result.yardstick = yardstick;
  result.ratio = result.p50_us / median(theirs);
  print(result, options_.json);
}

void Handoff::leases() {
  if (!wanted("lease")) return;
  const std::vector<std::uint64_t> sizes = wanted_sizes("lease");
  if (sizes.empty()) return;
  open("lease", WaitStrategy::block);
  std::vector<Times> ours(sizes.size());
  for (int round = 0; round < options_.rounds; ++round) {
    for (std::size_t i = 0; i < sizes.size(); ++i) ours[i].add(puts(sizes[i], count_for(0, 150), true));
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Row result = row("lease", sizes[i], ours[i]);
    result.yardstick = "smallest lease";
    result.ratio = result.p50_us / median(ours[0].p50);
    print(result, options_.json);
  }
}

void Handoff::reads() {
  if (!wanted("read")) return;
  constexpr std::uint32_t kWindow = 4;   // watched ahead
  constexpr std::uint32_t kBuffers = 8;  // in the sender's pool
  for (const std::uint64_t size : wanted_sizes("read")) {
    const std::uint32_t count = std::max(count_for(size, 10), 3 * kBuffers);
    open("read", WaitStrategy::adaptive, kBuffers * size);
    CopyYardstick copy(size, kBuffers, 1);
    std::vector<double> ours, theirs;
    for (int round = 0; round < options_.rounds; ++round) {
      theirs.push_back(copy.gb_per_s(static_cast<int>(count)));
      ours.push_back(stream(size, count, kWindow));
    }
    Row result;
    result.bench = "handoff";
    result.name = "read";
    result.size = size;
    result.gb_per_s = median(ours);
    result.p50_us = static_cast<double>(size) / result.gb_per_s / 1e3;
    result.p99_us = static_cast<double>(size) / *std::min_element(ours.begin(), ours.end()) / 1e3;
    result.yardstick = "memcpy";
    result.ratio = result.gb_per_s / median(theirs);
    print(result, options_.json);
  }
}

std::vector<double> Handoff::zmq_puts(void* socket, std::uint64_t size, std::uint32_t count) {
  Request request;
  request.kind = Request::zmq_receive;
  request.count = count;
  partner_.ask(request);
  std::vector<std::byte> bytes(size);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (const double start = now_us(); now_us() - start < kFallAsleepUs;) {
    }
    stamp(bytes.data());
    if (zmq_send(socket, bytes.data(), size, 0) < 0) die("zmq_send");
    char done = 0;
    zmq_recv(socket, &done, 0, 0);
  }
  return partner_.answer();
}

void Handoff::against_zmq(const std::string& transport) {
  const std::string name = "zmq-" + transport;
  if (!wanted(name)) return;
  open("auto", WaitStrategy::block);
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_PAIR);
  const std::string address =
      transport == "tcp" ? "tcp://127.0.0.1:*" : "ipc://@stagewire-bench-" + std::to_string(partner_.pid());
  if (zmq_bind(socket, address.c_str()) != 0) die("zmq_bind to " + address);
  Request request;
  request.kind = Request::zmq_open;
  std::size_t length = sizeof request.endpoint;
  zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, request.endpoint, &length);
  partner_.ask(request);
  partner_.answer();
  for (const std::uint64_t size : wanted_sizes(name)) {
    Times ours, theirs;
    for (int round = 0; round < options_.rounds; ++round) {
      theirs.add(zmq_puts(socket, size, std::max(count_for(10 * size, 100) / 4, 5U)));
      ours.add(puts(size, count_for(0, 150) / 2, true));
    }
    Row result = row(size <= 8 * KiB ? "eager" : "lease", size, ours);
    result.yardstick = name;
    result.ratio = result.p50_us / median(theirs.p50);
    print(result, options_.json);
  }
  zmq_close(socket);
  zmq_ctx_term(context);
}

void Handoff::idle() {
  if (!wanted("idle")) return;
  open("auto", WaitStrategy::adaptive);
  // Both map the other's pool while they meet; that is not idling.
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double share = idle_share(partner_, 3);
  Row result;
  result.bench = "handoff";
  result.name = "idle";
  result.yardstick = "one core";
  result.ratio = share;
  print(result, options_.json);

  const double theirs = resident_bytes(partner_);
  const double ours = resident_bytes();
  for (const auto& [name, bytes] : {std::pair("memory-sender", ours), std::pair("memory-receiver", theirs)}) {
    result.name = name;
    result.yardstick = "pool";
    result.size = static_cast<std::uint64_t>(bytes);
    result.ratio = bytes / static_cast<double>(options_.pool_size);
    print(result, options_.json);
  }
}

void Handoff::run() {
  take_core(0);  // after the partner was started, which takes the other
  print_header(options_.json);
  small("eager-block", WaitStrategy::block, "futex wake", futex_one_way);
  small("eager-spin", WaitStrategy::spin, "two spinning", spin_one_way);
  leases();
  reads();
  against_zmq("ipc");
  against_zmq("tcp");
  idle();
}

}  // namespace

std::string handoff_problem(const HandoffOptions& options) {
  std::string names, sizes;
  std::vector<std::uint64_t> known;
  for (const Case& one : all_cases()) {
    names += (names.empty() ? "" : ", ") + std::string(one.name);
    const bool is_wanted =
        options.cases.empty() || std::count(options.cases.begin(), options.cases.end(), one.name) > 0;
    if (is_wanted) known.insert(known.end(), one.sizes.begin(), one.sizes.end());
  }
  for (const std::string& name : options.cases) {
    if (std::none_of(all_cases().begin(), all_cases().end(),
                     [&](const Case& one) { return one.name == name; }))
      return "there is no case " + name + "; there are " + names;
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (const std::uint64_t size : known) sizes += (sizes.empty() ? "" : ", ") + size_text(size);
  for (const std::uint64_t size : options.sizes) {
    if (std::count(known.begin(), known.end(), size) == 0)
      return "none of these cases has a payload of " + std::to_string(size) + " bytes; there are " +
             (sizes.empty() ? "no sizes to choose from" : sizes);
  }
  return "";
}

int run_handoff(const HandoffOptions& options) {
  Handoff(options).run();
  return 0;
}

}  // namespace stagewire::bench
