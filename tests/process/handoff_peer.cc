// One connector in a process of its own, told line by line on standard input what to do:
//   handoff_peer STAGE ROUTE PORT SENDER_PORT POOL_SIZE BACKEND HOST SENDER_HOST [SETTING=VALUE...]
// Answers one line to each. What it puts and expects depends on a seed, so that it can check by itself.
#include <sys/prctl.h>

#include <csignal>
#include <cstring>
#include <future>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

#include "stagewire/connector.hpp"
#include "support/pattern.hpp"

namespace {

using stagewire::Connector;
using stagewire::Milliseconds;
using stagewire::test::pattern;

struct Payload {
  std::string key;
  std::size_t size = 0;
  std::uint64_t seed = 0;
  long timeout_ms = 0;
};

Payload read_payload(std::istream& in) {
  Payload payload;
  in >> payload.key >> payload.size >> payload.seed >> payload.timeout_ms;
  return payload;
}

class Peer {
 public:
  explicit Peer(Connector& connector) : connector_(connector) {}

  std::string run(const std::string& command, std::istream& rest) {
    if (command == "put") return put(read_payload(rest));
    if (command == "get") return get(read_payload(rest), false);
    if (command == "hold") return get(read_payload(rest), true);
    if (command == "check") return check();
    if (command == "release") return release();
    if (command == "ready") return ready(rest);
    if (command == "drain") return drain(rest);
    if (command == "health") return health();
    if (command == "sender") return sender(rest);
    return "error: there is no command " + command;
  }

 private:
  std::string put(const Payload& payload) {
    const auto bytes = pattern(payload.size, payload.seed);
    const auto put = connector_.put("0", "1", payload.key, std::span<const std::byte>(bytes),
                                    {.timeout = Milliseconds(payload.timeout_ms)});
    return put ? "ok" : put.error().to_string();
  }

  std::string get(const Payload& payload, bool hold) {
    auto got =
        connector_.get("0", "1", payload.key, {.timeout = Milliseconds(payload.timeout_ms), .metadata = {}});
    if (!got) return got.error().to_string();
    const auto bytes = pattern(payload.size, payload.seed);
    const bool same =
        got->size() == bytes.size() && std::memcmp(got->bytes().data(), bytes.data(), bytes.size()) == 0;
    const std::string route(to_string(got->route()));
    if (hold) held_.emplace_back(std::move(*got), payload);
    return same ? "ok " + route : "corrupt bytes by " + route;
  }

  std::string check() const {
    for (const auto& [delivery, payload] : held_) {
      const auto bytes = pattern(payload.size, payload.seed);
      if (std::memcmp(delivery.bytes().data(), bytes.data(), bytes.size()) != 0) return "corrupt";
    }
    return "ok " + std::to_string(held_.size());
  }

  std::string release() {
    held_.clear();
    return "ok";
  }

  // Until the key can be got without waiting.
  std::string ready(std::istream& rest) {
    std::string key;
    rest >> key;
    std::promise<stagewire::Status> told;
    const auto watched =
        connector_.watch("0", "1", key, [&](const stagewire::Status& status) { told.set_value(status); });
    const stagewire::Status status = watched ? told.get_future().get() : watched;
    return status ? "ok" : status.error().to_string();
  }

  std::string drain(std::istream& rest) {
    long timeout_ms = 0;
    rest >> timeout_ms;
    const auto drained = connector_.drain(Milliseconds(timeout_ms));
    return drained ? "ok" : drained.error().to_string();
  }

  std::string health() {
    const stagewire::Health h = connector_.health();
    std::ostringstream text;
    text << "free " << h.pool_free << " quarantined " << h.pool_quarantined << " puts " << h.puts << " gets "
         << h.gets << " bytes_put " << h.bytes_put << " bytes_got " << h.bytes_got << " published "
         << h.published << " watched " << h.watched << " errors " << h.errors << " eager " << h.eager.count
         << " lease " << h.lease.count << " read " << h.read.count << " write " << h.write.count;
    return text.str();
  }

  std::string sender(std::istream& rest) {
    int port = 0;
    std::string host = "127.0.0.1";
    rest >> port >> host;
    connector_.update_sender_info(host, port);
    return "ok";
  }

  Connector& connector_;
  std::vector<std::pair<stagewire::Delivery, Payload>> held_;
};

}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that dies leaves nobody behind
  if (argc < 9) return 2;
  stagewire::ConnectorConfig config;
  config.stage_id = std::stoi(argv[1]);
  config.role = stagewire::Role::dual;
  config.route = argv[2];
  config.zmq_port = std::stoi(argv[3]);
  if (const int port = std::stoi(argv[4]); port != 0) {
    config.sender_host = argv[8];
    config.sender_zmq_port = port;
  }
  config.memory_pool_size = std::stoull(argv[5]);
  config.backend_type = argv[6];
  config.host = argv[7];
  for (int i = 9; i < argc; ++i) {
    const std::string setting = argv[i];
    const std::size_t equals = setting.find('=');
    config.backend_settings[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  auto connector = Connector::create(config);
  if (!connector) {
    std::cout << connector.error().to_string() << std::endl;
    return 1;
  }
  std::cout << "port " << (*connector)->connection_info().zmq_port << std::endl;
  Peer peer(**connector);
  std::string line;
  while (std::getline(std::cin, line) && line != "exit") {
    std::istringstream words(line);
    std::string command;
    words >> command;
    std::cout << peer.run(command, words) << std::endl;
  }
  return 0;
}
