#include "memory/prefault.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>

#include "base/mapping.hpp"
#include "base/text.hpp"

namespace stagewire::memory {
namespace {

// Newer than the C library's headers of the systems we build on; the kernel's numbers never change.
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
constexpr int kCollapse = 25;       // MADV_COLLAPSE, Linux 6.1

constexpr std::size_t kPage = 4096;
constexpr std::size_t kStep = std::size_t{16} << 20;  // tens of milliseconds each: progress is smooth

/// Says how far it is, about ten times a second, once a second has passed.
class ProgressReport {
 public:
  ProgressReport(const std::function<void(std::size_t, std::size_t)>& progress, std::size_t total,
                 const base::Clock& clock)
      : progress_(progress), total_(total), clock_(clock), next_(clock.now() + std::chrono::seconds(1)) {}

  void reached(std::size_t done) {
    const base::TimePoint now = clock_.now();
    const bool is_last = shown_ && done == total_;  // who has heard of the beginning hears of the end
    if (!progress_ || (now < next_ && !is_last)) return;
    progress_(done, total_);
    shown_ = true;
    next_ = now + std::chrono::milliseconds(100);
  }

 private:
  const std::function<void(std::size_t, std::size_t)>& progress_;
  const std::size_t total_;
  const base::Clock& clock_;
  base::TimePoint next_;
  bool shown_ = false;
};

/// One page brings each 2 MiB into being, the collapse makes it huge. Failure is fine: small pages do as
/// well.
void collapse(std::span<std::byte> range) {
  for (std::size_t at = 0; at + base::Mapping::kHugePage <= range.size(); at += base::Mapping::kHugePage) {
    if (madvise(range.data() + at, kPage, kPopulateWrite) != 0) return;
    if (madvise(range.data() + at, base::Mapping::kHugePage, kCollapse) != 0) return;
  }
}

Status populate(std::span<std::byte> range) {
  int failed = 0;
  do {
    failed = madvise(range.data(), range.size(), kPopulateWrite);
  } while (failed != 0 && errno == EINTR);
  if (failed == 0) return {};
  if (errno == EINVAL) {  // an older kernel
    touch_pages(range);
    return {};
  }
  if (errno == ENOMEM || errno == EFAULT || errno == EAGAIN) {
    return base::error(ErrorCode::exhausted, "memory ran out: ", base::errno_text(errno));
  }
  return base::system_error("MADV_POPULATE_WRITE", errno);
}

}  // namespace

Status prefault(std::span<std::byte> memory, bool collapse_pages,
                const std::function<void(std::size_t, std::size_t)>& progress, const base::Clock& clock) {
  ProgressReport report(progress, memory.size(), clock);
  for (std::size_t done = 0; done < memory.size();) {
    const auto step = memory.subspan(done, std::min(kStep, memory.size() - done));
    if (collapse_pages) collapse(step);
    if (Status status = populate(step); !status) {
      return status.error().with_context(base::text("after ", base::size_text(done), " of ",
                                                    base::size_text(memory.size()), " were filled"));
    }
    done += step.size();
    report.reached(done);
  }
  return {};
}

void touch_pages(std::span<std::byte> memory) {
  for (std::size_t at = 0; at < memory.size(); at += kPage) {
    // Atomic, since another thread or process may be writing there.
    std::atomic_ref(*reinterpret_cast<unsigned char*>(memory.data() + at))
        .fetch_or(0, std::memory_order_relaxed);
  }
}

std::size_t huge_page_bytes(std::span<const std::byte> memory) {
  std::ifstream smaps("/proc/self/smaps");
  const auto start = reinterpret_cast<std::uintptr_t>(memory.data());
  bool inside = false;
  std::string line;
  while (std::getline(smaps, line)) {
    std::uintptr_t address = 0;
    const char* const end = line.data() + line.size();
    const auto parsed = std::from_chars(line.data(), end, address, 16);
    if (parsed.ec == std::errc{} && parsed.ptr != end && *parsed.ptr == '-') inside = address == start;
    if (!inside || !line.starts_with("ShmemPmdMapped:")) continue;
    const auto digits = line.find_first_of("0123456789");
    std::size_t kib = 0;
    if (digits != std::string::npos) std::from_chars(line.data() + digits, end, kib);
    return kib * 1024;
  }
  return 0;
}

}  // namespace stagewire::memory
