// Filling a mapping with pages before anybody waits for them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/clock.hpp"
#include "stagewire/result.hpp"

namespace stagewire::memory {

/// Gives every page of a shared, writable mapping its memory; contents stay. `collapse_pages` makes each 2
/// MiB one transparent huge page where the kernel can (Linux 6.1 on): that needs no setting of the machine
/// and is several times faster than 512 single faults. `progress` (may be empty) as in HostSlabOptions.
/// `exhausted` when memory runs out on the way.
Status prefault(std::span<std::byte> memory, bool collapse_pages,
                const std::function<void(std::size_t, std::size_t)>& progress,
                const base::Clock& clock = base::steady_clock());

/// What prefault() does where the kernel is older than 5.14: a write to each page that changes nothing. Ends
/// the process by SIGBUS when memory runs out.
void touch_pages(std::span<std::byte> memory);

/// Bytes of the mapping at `memory` that the page tables of this process show as huge pages (from
/// /proc/self/smaps).
std::size_t huge_page_bytes(std::span<const std::byte> memory);

}  // namespace stagewire::memory
