// What the parts of the mori backend share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/completion_queue.hpp"
#include "backend/worker.hpp"
#include "backends/rdma/mori/arrivals.hpp"
#include "backends/rdma/mori/control.hpp"
#include "backends/rdma/mori/region.hpp"
#include "backends/rdma/router.hpp"

namespace stagewire::backends::rdma::mori {

/// Whoever has queue pairs. Called with the hub's mutex held.
class PairOwner {
 public:
  virtual ~PairOwner() = default;
  virtual void on_sent(const ibv_wc& completion, std::size_t pair) = 0;
  virtual void on_received(const ibv_wc& completion, std::size_t pair) = 0;
};

struct Hub {
  const std::string engine_key;
  const Settings& settings;
  const std::vector<std::shared_ptr<Port>>& ports;
  backend::CompletionQueue& completions;
  backend::Worker& worker;

  std::mutex mutex;  ///< guards everything of the backend that does not say otherwise
  std::unique_ptr<Control> control;
  Router<PairOwner> router;
  std::map<std::uint32_t, const Region*> regions;  ///< by the engine's id
  Arrivals arrivals;

  /// Which of our ports a queue pair is to be on, for a peer's: the same place in the list where there is one
  /// of the same kind, so that both are on one rail.
  std::size_t port_for(int rail, bool ethernet) const {
    const auto fits = [&](std::size_t port) { return ports[port]->ethernet() == ethernet; };
    if (rail >= 0 && static_cast<std::size_t>(rail) < ports.size() && fits(static_cast<std::size_t>(rail)))
      return static_cast<std::size_t>(rail);
    for (std::size_t port = 0; port < ports.size(); ++port) {
      if (fits(port)) return port;
    }
    return 0;
  }

  /// Runs it on the worker, without the mutex.
  Status run_on_worker(std::function<void()> work) {
    class Task final : public backend::Worker::Job {
     public:
      Task(const Hub* hub, std::function<void()> task) : Job(hub), work_(std::move(task)) {}
      bool step() override {
        work_();
        return true;
      }
      void abandon() override {}

     private:
      const std::function<void()> work_;
    };
    std::unique_ptr<backend::Worker::Job> task = std::make_unique<Task>(this, std::move(work));
    const auto pushed = worker.push(task);
    if (!pushed) return pushed.error();
    if (*pushed) return {};
    return Error(ErrorCode::exhausted, "too many queue pairs are being set up at once");
  }
};

}  // namespace stagewire::backends::rdma::mori
