#include "backends/rdma/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>

#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

struct Given {
  std::string name;  ///< of the setting or the variable, for messages
  std::string text;
};

// The first of a setting and some variables that says something.
std::optional<Given> given(const BackendOptions& options, std::string_view setting,
                           std::initializer_list<const char*> variables) {
  const auto found = options.settings.find(setting);
  if (found != options.settings.end() && !found->second.empty()) return Given{found->first, found->second};
  for (const char* variable : variables) {
    const char* text = std::getenv(variable);
    if (text != nullptr && *text != '\0') return Given{variable, text};
  }
  return std::nullopt;
}

template <typename Integer>
Status read(const std::optional<Given>& from, std::int64_t least, std::int64_t most, Integer& value) {
  if (!from) return {};
  std::int64_t number = 0;
  const char* end = from->text.data() + from->text.size();
  const auto [stopped, problem] = std::from_chars(from->text.data(), end, number);
  if (problem != std::errc() || stopped != end || number < least || number > most) {
    return base::error(ErrorCode::invalid_argument, from->name, " is '", from->text,
                       "'; it must be a number from ", least, " to ", most);
  }
  value = static_cast<Integer>(number);
  return {};
}

Status read_mtu(const std::optional<Given>& from, std::uint32_t& value) {
  if (Status ok = read(from, 256, 4096, value); !ok) return ok;
  if (value == 0 || (value & (value - 1)) == 0) return {};
  return base::error(ErrorCode::invalid_argument, from->name, " is ", value,
                     "; an MTU is 256, 512, 1024, 2048 or 4096 bytes");
}

}  // namespace

Result<DeviceFilter> DeviceFilter::parse(std::string_view text) {
  DeviceFilter filter;
  if (text.empty()) return filter;
  if (text.front() == '^') {
    filter.excludes = true;
    text.remove_prefix(1);
  }
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, comma);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (name.empty()) {
      return base::error(ErrorCode::invalid_argument,
                         "a list of RDMA devices has an empty name; write \"mlx5_0,mlx5_1\" or \"^mlx5_2\"");
    }
    filter.names.emplace_back(name);
    if (comma == text.size()) return filter;
    text.remove_prefix(comma + 1);
  }
}

std::optional<std::size_t> DeviceFilter::rank(std::string_view device, int port) const {
  const std::string with_port = base::text(device, ":", port);
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return name == device || name == with_port;
  });
  const auto place = static_cast<std::size_t>(found - names.begin());
  if (names.empty() || (excludes && found == names.end())) return names.size();
  return excludes || found == names.end() ? std::nullopt : std::optional(place);
}

Result<Settings> Settings::from(const BackendOptions& options) {
  Settings settings;
  if (const auto names = given(options, "device_name", {"MORI_RDMA_DEVICES"})) {
    auto filter = DeviceFilter::parse(names->text);
    if (!filter) return filter.error().with_context(names->name);
    settings.devices = std::move(*filter);
  }
  std::int64_t batch = -1;
  std::int64_t recovery = settings.recovery.count();
  int gid = -1;
  const Status statuses[] = {
      read(given(options, "gid_index", {"MORI_IB_GID_INDEX"}), 0, 1023, gid),
      read(given(options, "qp_per_transfer", {"MORI_IO_QP_PER_TRANSFER"}), 1, 16, settings.queue_pairs),
      read(given(options, "rails_per_transfer", {"MORI_IO_NUM_NICS_PER_TRANSFER"}), 1, 8, settings.rails),
      read(given(options, "post_batch_size", {"MORI_IO_POST_BATCH_SIZE"}), -1, 1024, batch),
      read(given(options, "service_level", {"MORI_IO_SL", "MORI_RDMA_SL"}), 0, 15, settings.service_level),
      read(given(options, "traffic_class", {"MORI_IO_TC", "MORI_RDMA_TC"}), 0, 255, settings.traffic_class),
      read_mtu(given(options, "path_mtu", {"MORI_IB_PATH_MTU"}), settings.path_mtu),
      read(given(options, "rdma_retry_count", {}), 1, 6, settings.retry_count),
      read(given(options, "rdma_ack_timeout", {}), 1, 31, settings.ack_timeout),
      read(given(options, "rdma_recovery_timeout_ms", {}), 1, 3'600'000, recovery),
      read(given(options, "mori_port", {}), 0, 65535, settings.mori_port),
      read(given(options, "rdma_max_piece", {}), 4096, 1LL << 31, settings.max_piece),
  };
  for (const Status& status : statuses) {
    if (!status) return status.error();
  }
  if (gid >= 0) settings.gid_index = gid;
  if (batch > 0) settings.post_batch = static_cast<std::uint32_t>(batch);
  settings.recovery = std::chrono::milliseconds(recovery);
  return settings;
}

}  // namespace stagewire::backends::rdma
