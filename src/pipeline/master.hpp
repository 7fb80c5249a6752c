// The master's side of a run over several hosts: the nodes call it, and it has their stages.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "control/control_plane.hpp"
#include "pipeline/node_registry.hpp"
#include "pipeline/stage_group.hpp"

namespace stagewire::pipeline {

struct MasterOptions {
  std::string host;  ///< as ControlOptions has it
  int port = 0;
  std::string secret_key;
  Milliseconds start_timeout{120'000};    ///< for every node to have called
  Milliseconds heartbeat_timeout{5'000};  ///< after which a silent node is lost
  Hello own;                              ///< see NodeRegistry
  std::vector<int> stages;                ///< of the whole run, in the order of the chain
};

/// As a StageGroup it has the stages of all other nodes. One thread.
class Master final : public StageGroup, private control::ControlSink {
 public:
  /// Tells what happens before the start, a line each.
  using Note = std::function<void(const std::string& line)>;

  /// Binds: errors as ControlPlane::create() has them.
  static Result<std::unique_ptr<Master>> open(MasterOptions options);

  int port() const { return plane_->port(); }  ///< that was bound

  /// Blocks until every stage has its node, then tells all to begin. `cancelled`: `stop_fd` was readable;
  /// `timeout` names the stages that nobody runs.
  Status gather(const Begin& begin, int stop_fd, const Note& note);
  /// Tells every node how the run ended and waits, a moment at most, until they have gone.
  void end(const RunEnd& end);

  /// Whether each stage can call the one before it where that one listens; by position.
  Status check_meeting(const std::vector<Ready>& where) const;

  std::vector<std::size_t> positions() const override;
  pid_t pid(std::size_t position) const override;
  std::string place(std::size_t position) const override;
  bool is_stopped(std::size_t) const override { return false; }
  void send(std::size_t position, const Message& message) override;
  void kill_stage(std::size_t position) override;
  void watch(std::vector<pollfd>& fds) const override;
  base::Deadline due() const override;
  void serve(std::span<const pollfd> fds, StageSink& sink) override;

 private:
  /// Beside what it said in its Hello, which the registry has.
  struct Node {
    base::TimePoint last_heard;
    std::map<std::size_t, pid_t> pids;  // by position
  };

  explicit Master(MasterOptions options);

  void on_call(const control::CallerId& caller, std::span<const std::byte> payload) override;
  void on_answer(control::DialId, std::span<const std::byte>) override {}
  void on_connected(control::DialId) override {}
  void on_disconnected(control::DialId) override {}
  void on_hang_up() override;

  void take(const std::string& caller, const NodeMessage& message);
  void take_hello(const std::string& caller, const Hello& hello);
  void take_from_stage(const std::string& caller, const FromStage& from);
  void refuse(const std::string& caller, const Hello& hello, const Error& reason);
  void answer(const std::string& caller, const NodeMessage& message);
  void progress();
  void look_for_lost();
  void lose(const std::string& connection, const Error& reason);
  Error nobody_came() const;

  std::vector<std::size_t> positions_of(const Hello& hello) const;
  bool runs(const std::string& connection, std::uint64_t position) const;
  const std::string& connection_of(std::size_t position) const;  // empty: none, or not any more
  const std::string& network_of(std::size_t position) const;

  MasterOptions options_;
  NodeRegistry registry_;
  std::unique_ptr<control::ControlPlane> plane_;
  std::map<std::string, Node> nodes_;  // by connection, as the registry has them
  bool begun_ = false;                 // from then on a lost node is a lost run
  StageSink* sink_ = nullptr;          // within serve()
  Note note_;                          // within gather()
  std::string last_refusal_;
  base::TimePoint probe_at_ = base::TimePoint::max();
  base::Duration probe_step_{};
  base::LogLimiter refusals_;
  base::LogLimiter nonsense_;
};

}  // namespace stagewire::pipeline
