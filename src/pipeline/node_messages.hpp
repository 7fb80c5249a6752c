// What the nodes of a run over several hosts and its master tell each other: one JSON object a message, over
// the control plane (docs/two-hosts.md).
//
//   node                              master
//     Hello        ------------------>   compares it with its own plan and with who is there
//                  <------------------ Welcome, or Refused
//     Beat ...     ------------------>   for ever, and answered: who falls silent is lost
//                  <------------------ Begin (when every stage has a node); the node starts its stages
//     Started      ------------------>
//     FromStage ...  <-------------->  ToStage ...   what supervisor and stage tell each other
//                  <------------------ KillStage
//     Exited       ------------------>
//     Leaving      ------------------>   the node was interrupted, or cannot go on
//                  <------------------ RunEnd; the node says what came of the run, and ends
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pipeline/stage_messages.hpp"

namespace stagewire::pipeline {

/// "stage 1", "stages 1, 2".
std::string stage_list(const std::vector<int>& stages);

/// Goes up when nodes of an older release could not take part.
inline constexpr int kNodeProtocol = 1;

struct Hello {
  int protocol = kNodeProtocol;
  std::string release;  ///< "0.1.0"
  std::string name;     ///< of the host
  std::int64_t pid = 0;
  std::string instance;  ///< chosen at random: a node that calls again is the same one
  std::string boot_id;   ///< nodes with the same one share a clock
  std::string network;   ///< nodes with the same one share the loopback interface
  std::string pipeline;
  std::vector<int> stages;                     ///< that it runs
  std::map<std::string, std::string> plan;     ///< see plan_digest()
  std::map<std::string, std::string> options;  ///< of the replay, those that were given to it

  std::string who() const;  ///< "node vm2 (pid 4711, stages 1, 2)"
};

struct Welcome {
  std::string boot_id;
  std::int64_t heartbeat_timeout_ms = 0;
};

struct Refused {
  ErrorCode code = ErrorCode::failed;
  std::string message;
};

/// What all nodes have to agree on; the master's.
struct Begin {
  std::string request_id;
  ReplayOptions replay;
  std::string trace_digest;  ///< of the trace's contents; empty: there is none
  bool real_time = false;
  double speed = 1;
  std::int64_t timeout_ms = 0;
};

struct Started {
  std::uint64_t position = 0;  ///< in the chain, as below
  std::int64_t pid = 0;
};

struct ToStage {
  std::uint64_t position = 0;
  std::string message;  ///< encode_message()
};

struct FromStage {
  std::uint64_t position = 0;
  std::string message;
};

struct KillStage {
  std::uint64_t position = 0;
};

struct Exited {
  std::uint64_t position = 0;
  bool killed = false;  ///< by a signal
  int number = 0;       ///< the signal, or the exit status
  std::string last_words;
};

struct Beat {
  std::int64_t sent_at_us = 0;  ///< on the node's clock
};

struct BeatAnswer {
  std::int64_t sent_at_us = 0;  ///< the Beat's
  std::int64_t at_us = 0;       ///< on the master's clock
};

struct Leaving {
  ErrorCode code = ErrorCode::failed;
  std::string message;
};

struct RunEnd {
  bool ok = false;  ///< it came to its end; requests may have failed
  ErrorCode code = ErrorCode::failed;
  std::string message;
  std::uint64_t requests_done = 0;
  std::uint64_t requests_failed = 0;
  double audio_seconds = 0;  ///< of those that are done
};

using NodeMessage = std::variant<Hello, Welcome, Refused, Begin, Started, ToStage, FromStage, KillStage,
                                 Exited, Beat, BeatAnswer, Leaving, RunEnd>;

std::string encode_node_message(const NodeMessage& message);
/// `corrupt` says what is wrong with the text. Texts for people are on one line and move no cursor.
Result<NodeMessage> decode_node_message(std::string_view text);

/// A stage's message with every time that it names later by `offset_us`: from the clock of one host to that
/// of another.
Message shift_clock(Message message, std::int64_t offset_us);

}  // namespace stagewire::pipeline
