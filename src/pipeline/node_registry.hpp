// Which node runs which stages of a run over several hosts. No sockets.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pipeline/node_messages.hpp"

namespace stagewire::pipeline {

/// One thread. A node is known by a name that its connection has, whatever that is.
class NodeRegistry {
 public:
  /// `own`: what the master itself would say, with every option of the replay; `stages`: of the whole run.
  NodeRegistry(Hello own, std::vector<int> stages);

  /// Takes the node in, or says what it and the master disagree about (`invalid_argument`), or who has the
  /// stage already (`conflict`). A node that calls again takes its own place.
  Status admit(const std::string& connection, const Hello& hello);
  void remove(const std::string& connection) { nodes_.erase(connection); }

  const std::map<std::string, Hello>& nodes() const { return nodes_; }
  /// nullptr: nobody, or the master.
  const Hello* find(const std::string& connection) const;
  /// Stages that nobody runs yet.
  std::vector<int> missing() const;

 private:
  Status check_agreement(const Hello& hello) const;
  Status check_stages(const Hello& hello) const;

  Hello own_;
  std::vector<int> stages_;
  std::map<std::string, Hello> nodes_;
};

}  // namespace stagewire::pipeline
