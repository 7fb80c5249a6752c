// Whose completion is it? Queue pairs by port and number.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace stagewire::backends::rdma {

/// Thread-safe.
template <typename Owner>
class Router {
 public:
  struct Route {
    std::shared_ptr<Owner> owner;  ///< nullptr: nobody's any more
    std::size_t pair = 0;
  };
  void add(std::size_t port, std::uint32_t number, const std::shared_ptr<Owner>& owner, std::size_t pair) {
    const std::lock_guard lock(mutex_);
    routes_[key(port, number)] = {owner, pair};
  }
  void remove(std::size_t port, std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    routes_.erase(key(port, number));
  }
  Route find(std::size_t port, std::uint32_t number) const {
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(key(port, number));
    return found == routes_.end() ? Route{} : Route{found->second.owner.lock(), found->second.pair};
  }

 private:
  struct Entry {
    std::weak_ptr<Owner> owner;
    std::size_t pair = 0;
  };
  static std::uint64_t key(std::size_t port, std::uint32_t number) {
    return (std::uint64_t{port} << 32) | number;
  }
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Entry> routes_;
};

}  // namespace stagewire::backends::rdma
