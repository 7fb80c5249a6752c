// Two hosts in a guest of scripts/rdma-vm (run --netns): this one, and the one where `peer` runs commands.
#pragma once

#include <cstdlib>
#include <string>

#include "process/handoff_process.hpp"

namespace stagewire::rdma_test {

constexpr const char* kHere = "10.77.0.1";
constexpr const char* kThere = "10.77.0.2";

inline bool in_guest() {
  return std::getenv("RDMA_VM") != nullptr;
}

/// The stage that puts, on this host.
inline process::PeerOptions sender_options() {
  return {.stage = 0, .backend = "rdma", .host = kHere, .sender_host = kHere};
}

/// The stage that gets, on the other.
inline process::PeerOptions receiver_options(int sender_port) {
  return {.stage = 1,
          .sender_port = sender_port,
          .backend = "rdma",
          .host = kThere,
          .sender_host = kHere,
          .launcher = {"peer"}};
}

/// Pulls the other host's cable out of the switch, or puts it back; `rail` counts from 0. The plain network
/// that carries the control plane stays as it is.
inline void set_link(bool up, int rail = 0, int rails = 1) {
  const std::string command =
      "nsenter --net=/proc/1/ns/net ip link set port" + std::to_string(rails + rail) + (up ? " up" : " down");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

/// Mends what a test has cut, whatever becomes of it.
class CutLink {
 public:
  explicit CutLink(int rail = 0, int rails = 1) : rail_(rail), rails_(rails) {
    set_link(false, rail_, rails_);
  }
  ~CutLink() { mend(); }
  CutLink(const CutLink&) = delete;
  CutLink& operator=(const CutLink&) = delete;
  void mend() {
    if (!std::exchange(mended_, true)) set_link(true, rail_, rails_);
  }

 private:
  const int rail_;
  const int rails_;
  bool mended_ = false;
};

}  // namespace stagewire::rdma_test
