#include "perftest.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <vector>

#include "die.hpp"

namespace stagewire::bench {
namespace {

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    die("no free port for perftest");
  }
  ::close(fd);
  return ntohs(address.sin_port);
}

std::string command_of(const PerftestRun& run, int port, const std::string& peer,
                       const std::string& around = "") {
  std::ostringstream text;
  text << "exec " << around << run.program << " -F -d " << run.device << " -s " << run.size << " -n "
       << run.iterations << " -p " << port << " " << peer << " 2>&1";
  return text.str();
}

// The columns of the line that begins with the size: "size iterations peak average rate" of a bandwidth,
// "size iterations min max typical average ..." of a latency.
std::optional<double> value_in(const std::string& output, const PerftestRun& run) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::uint64_t size = 0;
    if (!(words >> size) || size != run.size) continue;
    std::vector<double> columns;
    for (double value = 0; words >> value;) columns.push_back(value);
    const bool latency = run.program.ends_with("_lat");
    if (columns.size() < (latency ? 4U : 3U)) continue;
    return latency ? columns[3] : columns[2] * 1024 * 1024 / 1e6;  // it prints MiB as MB
  }
  return std::nullopt;
}

}  // namespace

bool has_perftest() {
  return std::system("command -v ib_write_bw ib_write_lat > /dev/null 2>&1") == 0;
}

std::optional<double> run_perftest(const PerftestRun& run) {
  const int port = free_port();
  const pid_t server = ::fork();
  if (server == 0) {
    // It ends by itself when no client comes.
    const std::string command = command_of(run, port, "", "timeout 120 ") + " > /dev/null";
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  // Its client gives up at once when the server does not listen yet.
  std::string output;
  std::optional<double> value;
  for (int attempt = 0; attempt < 50 && !value; ++attempt) {
    ::usleep(100'000);
    output.clear();
    FILE* client = ::popen(command_of(run, port, "localhost").c_str(), "r");
    if (client == nullptr) break;
    std::array<char, 4096> buffer;
    while (std::fgets(buffer.data(), buffer.size(), client) != nullptr) output += buffer.data();
    ::pclose(client);
    value = value_in(output, run);
  }
  if (!value) {
    std::fprintf(stderr, "stagewire bench rdma: %s gave no result:\n%s\n", run.program.c_str(),
                 output.c_str());
  }
  ::waitpid(server, nullptr, 0);
  return value;
}

}  // namespace stagewire::bench
