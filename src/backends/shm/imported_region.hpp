// A peer's region in this process.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "backend/worker.hpp"
#include "backends/shm/formats.hpp"
#include "backends/shm/shared_file.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::shm {

/// One mapping, shared by all imports of the same region.
class RegionMapping {
 public:
  /// Checks that the file is what the key says. Maps, but does not populate.
  static Result<std::shared_ptr<RegionMapping>> create(const RegionKey& key, base::UniqueFd file);

  std::byte* data() const { return mapping_.bytes().data() + start_; }
  std::uint64_t size() const { return size_; }
  /// Sets up the page tables for what the file holds, from byte `done` of the region on, some of it a call,
  /// so that nothing on the data path faults. Returns how far it is done.
  std::uint64_t populate(std::uint64_t done) const;

 private:
  RegionMapping(base::Mapping mapping, base::UniqueFd file, std::uint64_t start, const RegionKey& key,
                bool writable)
      : mapping_(std::move(mapping)),
        file_(std::move(file)),
        start_(start),
        file_offset_(key.file_offset),
        size_(key.size),
        writable_(writable) {}

  const base::Mapping mapping_;
  const base::UniqueFd file_;
  const std::uint64_t start_;  // of the region in the mapping, which begins at a page
  const std::uint64_t file_offset_;
  const std::uint64_t size_;
  const bool writable_;
};

/// The state of one import: pending until set() is called, once.
class Import {
 public:
  explicit Import(const RegionKey& key) : key_(key) {}

  const RegionKey& key() const { return key_; }
  Access access() const { return static_cast<Access>(key_.access); }
  std::optional<Status> status() const;
  /// nullptr unless it succeeded.
  const RegionMapping* mapping() const {
    return ready_.load(std::memory_order_acquire) ? mapping_.get() : nullptr;
  }

  void succeed(std::shared_ptr<RegionMapping> mapping);
  /// Only the first end counts.
  void fail(const Error& reason);

 private:
  const RegionKey key_;
  std::shared_ptr<RegionMapping> mapping_;  // constant once ready_
  std::atomic<bool> ready_{false};
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

class ShmRemoteRegion final : public RemoteRegion {
 public:
  explicit ShmRemoteRegion(std::shared_ptr<Import> import) : import_(std::move(import)) {}
  std::uint64_t size() const override { return import_->key().size; }
  std::optional<Status> status() const override { return import_->status(); }
  const std::byte* mapping() const override {
    const RegionMapping* mapping = allows_read(import_->access()) ? import_->mapping() : nullptr;
    return mapping == nullptr ? nullptr : mapping->data();
  }
  const Import& import() const { return *import_; }

 private:
  const std::shared_ptr<Import> import_;
};

}  // namespace stagewire::backends::shm
