// What the tests of the control plane share: a sink that writes down, and a loop that waits on wait_fd()
// alone.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/control_plane.hpp"

namespace stagewire::control {

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Recorder : public ControlSink {
 public:
  void on_call(const CallerId& caller, std::span<const std::byte> payload) override {
    calls.emplace_back(caller, as_text(payload));
    if (call) call(caller, payload);
  }
  void on_answer(DialId dial, std::span<const std::byte> payload) override {
    answers.emplace_back(dial, as_text(payload));
    if (answer) answer(dial, payload);
  }
  void on_connected(DialId dial) override {
    ups.push_back(dial);
    if (connected) connected(dial);
  }
  void on_disconnected(DialId dial) override {
    downs.push_back(dial);
    if (disconnected) disconnected(dial);
  }
  void on_hang_up() override { ++hang_ups; }

  std::vector<std::pair<CallerId, std::string>> calls;
  std::vector<std::pair<DialId, std::string>> answers;
  std::vector<DialId> ups;
  std::vector<DialId> downs;
  int hang_ups = 0;
  std::function<void(const CallerId&, std::span<const std::byte>)> call;
  std::function<void(DialId, std::span<const std::byte>)> answer;
  std::function<void(DialId)> connected;
  std::function<void(DialId)> disconnected;
};

/// A plane with its sink.
struct Station {
  std::unique_ptr<ControlPlane> plane;
  Recorder seen;

  static Station open(ControlOptions options = {}) {
    if (options.host.empty()) options.host = "127.0.0.1";
    Result<std::unique_ptr<ControlPlane>> made = ControlPlane::create(options);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    Station station;
    if (made) station.plane = *std::move(made);
    return station;
  }

  DialId dial(const Station& other) const {
    Result<DialId> made = plane->dial(other.plane->host(), other.plane->port());
    EXPECT_TRUE(made.ok());
    return made.ok() ? *made : 0;
  }
};

/// Drives the stations, asleep on their wait_fd() in between and on nothing else, until `done`. False: a
/// generous deadline passed, so a wake-up was lost or the thing did not happen.
inline bool drive(const std::vector<Station*>& stations, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::vector<pollfd> waits;
  for (const Station* station : stations) waits.push_back({station->plane->wait_fd(), POLLIN, 0});
  while (!done()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    if (poll(waits.data(), waits.size(), static_cast<int>(left.count())) < 0) continue;
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents != 0) stations[i]->plane->progress(stations[i]->seen);
    }
  }
  return true;
}

}  // namespace stagewire::control
