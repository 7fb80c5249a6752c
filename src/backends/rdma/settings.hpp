// What the user can say about the rdma backend, from the connector's configuration and the environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stagewire/backend.hpp"

namespace stagewire::backends::rdma {

/// A list of device names: those to use, in this order, or with a "^" in front those to leave out.
struct DeviceFilter {
  bool excludes = false;
  std::vector<std::string> names;

  /// "mlx5_0,mlx5_1" or "^mlx5_2"; "" = every device. A name may end in ":PORT". `invalid_argument` for an
  /// empty name in the list.
  static Result<DeviceFilter> parse(std::string_view text);
  /// Where this port stands in the order of the user, smaller first; nullopt = it is not wanted.
  std::optional<std::size_t> rank(std::string_view device, int port) const;
};

struct Settings {
  DeviceFilter devices;            ///< device_name, else MORI_RDMA_DEVICES
  std::optional<int> gid_index;    ///< gid_index, else MORI_IB_GID_INDEX
  std::uint32_t queue_pairs = 1;   ///< qp_per_transfer: that carry data, for each peer
  std::size_t rails = 1;           ///< rails_per_transfer: ports that data is spread over
  std::uint32_t post_batch = 32;   ///< post_batch_size: work requests of one posting; -1 there = this default
  std::uint8_t service_level = 0;  ///< service_level, else MORI_IO_SL, MORI_RDMA_SL
  std::uint8_t traffic_class = 0;  ///< traffic_class, else MORI_IO_TC, MORI_RDMA_TC
  std::uint32_t path_mtu = 0;      ///< path_mtu, else MORI_IB_PATH_MTU: bytes; 0 = the port's
  std::uint8_t retry_count = 6;    ///< rdma_retry_count: 1 to 6 (7 would mean for ever on some devices)
  std::uint8_t ack_timeout = 14;   ///< rdma_ack_timeout: 4.096 us * 2^this until a packet is sent again
  std::chrono::milliseconds recovery{10'000};  ///< rdma_recovery_timeout_ms: that a link may be down
  std::uint64_t max_piece =
      1U << 20;  ///< rdma_max_piece: bytes of one work request; at most the device's limit

  int mori_port = 0;  ///< mori_port: where MORI-IO's engines reach us; 0 = any free one

  /// `invalid_argument` names the setting, its value and what it may be. Settings of other backends are left
  /// alone.
  static Result<Settings> from(const BackendOptions& options);
};

}  // namespace stagewire::backends::rdma
