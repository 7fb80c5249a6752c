// Memory for objects that come and go often.
#pragma once

#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

namespace stagewire::base {

/// A base class: the memory of objects of class T that were deleted is kept for the next ones, up to kMost.
template <typename T, std::size_t kMost = 1024>
class Recycled {
 public:
  static void* operator new(std::size_t size) {
    if (size == sizeof(T)) {
      Spare& spare = spares();
      const std::lock_guard lock(spare.mutex);
      if (!spare.blocks.empty()) {
        void* const block = spare.blocks.back();
        spare.blocks.pop_back();
        return block;
      }
    }
    return ::operator new(size);
  }
  static void operator delete(void* block, std::size_t size) noexcept {
    if (size == sizeof(T)) {
      Spare& spare = spares();
      const std::lock_guard lock(spare.mutex);
      if (spare.blocks.size() < kMost) return spare.blocks.push_back(block);
    }
    ::operator delete(block);
  }

 private:
  struct Spare {
    Spare() { blocks.reserve(kMost); }
    std::mutex mutex;
    std::vector<void*> blocks;
  };
  // Never destroyed: an object may outlive whatever ends before it.
  static Spare& spares() {
    static Spare& spare = *new Spare;
    return spare;
  }
};

}  // namespace stagewire::base
