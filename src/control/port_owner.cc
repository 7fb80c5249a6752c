// Who holds a TCP port: /proc/net/tcp{,6} names the socket's inode, /proc/PID/fd the process that has it
// open.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "control/host_address.hpp"

namespace stagewire::control {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListening = "0A";
constexpr std::size_t kLongestCommand = 120;

struct PortHolder {
  std::string inode;
  unsigned user = 0;
};

/// The kernel prints an address as 32-bit words of the machine's byte order, in hexadecimal.
std::optional<std::string> address_text(const std::string& hex) {
  if (hex.size() != 8 && hex.size() != 32) return std::nullopt;
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i * 8 < hex.size(); ++i) {
    std::istringstream in(hex.substr(i * 8, 8));
    if (!(in >> std::hex >> words[i])) return std::nullopt;
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = hex.size() == 8 ? AF_INET : AF_INET6;
  if (inet_ntop(family, words.data(), text.data(), text.size()) == nullptr) return std::nullopt;
  const std::string_view mapped = "::ffff:";
  const std::string_view out(text.data());
  const bool is_mapped = out.substr(0, mapped.size()) == mapped && out.find('.') != std::string_view::npos;
  return std::string(is_mapped ? out.substr(mapped.size()) : out);
}

/// Whether a line of the table ("0: 0100007F:C350 00000000:0000 0A ...") is a socket that holds the port.
std::optional<PortHolder> holder_in(const std::string& line, std::string_view address, int port) {
  std::istringstream fields(line);
  std::string slot, local, remote, state, queues, timer, retransmits, timeout;
  PortHolder holder;
  fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> holder.user >> timeout >>
      holder.inode;
  const std::size_t colon = local.find(':');
  if (!fields || state != kListening || colon == std::string::npos) return std::nullopt;
  int local_port = 0;
  std::istringstream(local.substr(colon + 1)) >> std::hex >> local_port;
  const std::optional<std::string> local_address = address_text(local.substr(0, colon));
  if (!local_address || local_port != port) return std::nullopt;
  const bool same = *local_address == address || *local_address == "0.0.0.0" || *local_address == "::";
  return same ? std::optional(holder) : std::nullopt;
}

std::optional<PortHolder> find_holder(std::string_view address, int port, const std::string& proc) {
  for (const char* table : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream in(proc + table);
    std::string line;
    std::getline(in, line);  // the heading
    while (std::getline(in, line)) {
      if (std::optional<PortHolder> found = holder_in(line, address, port)) return found;
    }
  }
  return std::nullopt;
}

bool has_open(const fs::path& process, const std::string& link) {
  std::error_code error;
  for (fs::directory_iterator fd(process / "fd", error), end; !error && fd != end; fd.increment(error)) {
    std::error_code gone;
    if (fs::read_symlink(fd->path(), gone) == link) return true;
  }
  return false;
}

/// The number behind "PPid:" in the process's status.
std::string parent_of(const fs::path& process) {
  std::ifstream in(process / "status");
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name, value;
    if (words >> name >> value && name == "PPid:") return value;
  }
  return "?";
}

/// "stage 0 of stagewire serve, pid 17" for a stage process, whose own command line tells a user nothing;
/// empty for all others. `command` has a NUL behind each word but the last.
std::string stage_text(const fs::path& process, const std::string& command) {
  std::vector<std::string> words;
  std::istringstream in(command);
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  if (words.size() != 6 || words[1] != "serve" || words[2] != "--stage-id" || words[4] != "--pipeline-fd")
    return {};
  return base::text("stage ", base::printable(words[3]), " of stagewire serve, pid ", parent_of(process));
}

/// What it is called, without its pid.
std::string command_line(const fs::path& process) {
  std::ifstream in(process / "cmdline", std::ios::binary);
  std::string command(kLongestCommand, '\0');
  in.read(command.data(), static_cast<std::streamsize>(command.size()));
  command.resize(static_cast<std::size_t>(in.gcount()));
  while (!command.empty() && command.back() == '\0') command.pop_back();
  if (const std::string stage = stage_text(process, command); !stage.empty()) return stage;
  std::replace(command.begin(), command.end(), '\0', ' ');
  return base::printable(command);
}

}  // namespace

std::string port_owner(std::string_view address, int port, const std::string& proc) {
  const std::string wanted(address.substr(0, address.find('%')));
  const std::optional<PortHolder> holder = find_holder(wanted, port, proc);
  if (!holder) return {};
  const std::string link = "socket:[" + holder->inode + "]";
  std::error_code error;
  for (fs::directory_iterator entry(proc, error), end; !error && entry != end; entry.increment(error)) {
    const std::string pid = entry->path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (has_open(entry->path(), link)) return base::text("pid ", pid, " (", command_line(entry->path()), ")");
  }
  return base::text("a process of user ", holder->user);
}

}  // namespace stagewire::control
