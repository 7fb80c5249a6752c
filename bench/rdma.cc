#include "rdma.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>

#include "die.hpp"
#include "perftest.hpp"
#include "row.hpp"
#include "stagewire/engine.hpp"
#include "yardsticks.hpp"

namespace stagewire::bench {
namespace {

constexpr std::uint64_t kRegion = 64ULL << 20;

void put_bytes(int fd, std::span<const std::byte> bytes) {
  const std::uint64_t size = bytes.size();
  if (::write(fd, &size, sizeof size) != sizeof size ||
      ::write(fd, bytes.data(), size) != static_cast<ssize_t>(size)) {
    die("the other process is gone");
  }
}

std::vector<std::byte> take_bytes(int fd) {
  std::uint64_t size = 0;
  if (::recv(fd, &size, sizeof size, MSG_WAITALL) != sizeof size) die("the other process is gone");
  std::vector<std::byte> bytes(size);
  if (::recv(fd, bytes.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size))
    die("the other process is gone");
  return bytes;
}

// The one that measures is driven by hand: it looks without a pause, as perftest does.
std::unique_ptr<IOEngine> make_engine(const RdmaOptions& options, bool by_hand) {
  IOEngineConfig config;
  config.backends = {"rdma"};
  config.progress_thread = !by_hand;
  if (!options.device.empty()) config.backend_settings["device_name"] = options.device;
  return checked(IOEngine::create(config));
}

// The process that is written to and read from; ends with its pipe.
[[noreturn]] void be_target(const RdmaOptions& options, int fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  {
    const auto engine = make_engine(options, false);
    const auto memory = checked(engine->allocate(kRegion, Access::remote_read_write));
    put_bytes(fd, engine->desc().pack());
    put_bytes(fd, memory->desc().pack());
    std::byte end{};
    if (::recv(fd, &end, 1, 0) < 0) die("the other process is gone");
  }
  std::_Exit(0);
}

/// The process that measures.
class Initiator {
 public:
  Initiator(const RdmaOptions& options, int fd) : options_(options), engine_(make_engine(options, true)) {
    check(engine_->register_remote_engine(checked(EngineDesc::unpack(take_bytes(fd)))));
    const MemoryDesc remote = checked(MemoryDesc::unpack(take_bytes(fd)));
    memory_ = checked(engine_->allocate(kRegion, Access::local_only));
    session_ = checked(engine_->create_session(memory_->desc(), remote));
  }

  void run() {
    print_header(options_.json);
    for (const std::string& operation : options_.operations) {
      for (const std::uint32_t batch : options_.batches) {
        for (const std::uint64_t size : options_.sizes) bandwidth(operation, size, batch);
      }
      for (const std::uint64_t size : options_.sizes) latency(operation, size);
    }
  }

 private:
  void move(bool reads, std::span<const TransferPiece> pieces) {
    finish(reads ? session_->read(pieces) : session_->write(pieces));
  }
  void finish(const Transfer& transfer) {
    while (transfer->state() == TransferState::pending) engine_->progress();
    if (const auto error = transfer->error()) die(error->to_string());
  }
  // One after the other through the region, so that neighbours do not overlap while there is room.
  static std::vector<TransferPiece> pieces_of(std::uint64_t size, std::uint32_t batch) {
    std::vector<TransferPiece> pieces;
    for (std::uint32_t i = 0; i < batch; ++i) {
      const std::uint64_t offset = (std::uint64_t{i} * size) % (kRegion - size + 1);
      pieces.push_back({offset, offset, size});
    }
    return pieces;
  }

  // Several transfers are under way at once, as perftest keeps several requests.
  double mb_per_s(bool reads, std::uint64_t size, std::uint32_t batch, std::uint64_t count) {
    constexpr std::uint64_t kUnderWay = 64;
    const auto pieces = pieces_of(size, batch);
    std::vector<Transfer> under_way(kUnderWay);
    const double start = now_us();
    for (std::uint64_t i = 0; i < count; ++i) {
      Transfer& slot = under_way[i % kUnderWay];
      if (slot) finish(slot);
      slot = reads ? session_->read(pieces) : session_->write(pieces);
    }
    for (const Transfer& transfer : under_way) {
      if (transfer) finish(transfer);
    }
    return static_cast<double>(size * batch * count) / (now_us() - start);
  }

  // About how many of these fit into a round.
  std::uint64_t count_for(bool reads, std::uint64_t size, std::uint32_t batch) {
    const auto pieces = pieces_of(size, batch);
    move(reads, pieces);
    const double start = now_us();
    move(reads, pieces);
    const double each = std::max(now_us() - start, 0.1);
    return static_cast<std::uint64_t>(std::clamp(options_.seconds_per_round * 1e6 / each, 8.0, 100'000.0));
  }

  void bandwidth(const std::string& operation, std::uint64_t size, std::uint32_t batch) {
    const bool reads = operation == "read";
    const std::uint64_t count = count_for(reads, size, batch);
    std::vector<double> ours;
    std::vector<double> theirs;
    for (int round = 0; round < options_.rounds; ++round) {
      ours.push_back(mb_per_s(reads, size, batch, count));
      if (!has_perftest_) continue;
      const auto yardstick = run_perftest(
          {"ib_" + operation + "_bw", options_.device, size, std::max<std::uint64_t>(count, 16)});
      if (yardstick) theirs.push_back(*yardstick);
    }
    Row row;
    row.bench = "rdma";
    row.name = operation + "-" + std::to_string(batch);
    row.size = size;
    row.gb_per_s = median(ours) / 1e3;
    row.p50_us = static_cast<double>(size * batch) / median(ours);
    if (!theirs.empty()) {
      row.yardstick = "ib_" + operation + "_bw";
      row.ratio = median(ours) / median(theirs);
    }
    print(row, options_.json);
  }

  void latency(const std::string& operation, std::uint64_t size) {
    const bool reads = operation == "read";
    const auto pieces = pieces_of(size, 1);
    const std::uint64_t count = std::min<std::uint64_t>(count_for(reads, size, 1), 2000);
    std::vector<double> p50;
    std::vector<double> p99;
    std::vector<double> theirs;
    for (int round = 0; round < options_.rounds; ++round) {
      std::vector<double> times;
      for (std::uint64_t i = 0; i < count; ++i) {
        const double start = now_us();
        move(reads, pieces);
        times.push_back(now_us() - start);
      }
      p50.push_back(percentile(times, 0.5));
      p99.push_back(percentile(times, 0.99));
      if (!has_perftest_) continue;
      const auto yardstick = run_perftest({"ib_" + operation + "_lat", options_.device, size, count});
      // A write's is half of a round trip there, of which ours is a whole one.
      if (yardstick) theirs.push_back(reads ? *yardstick : 2 * *yardstick);
    }
    Row row;
    row.bench = "rdma";
    row.name = operation + "-latency";
    row.size = size;
    row.p50_us = median(p50);
    row.p99_us = median(p99);
    if (!theirs.empty()) {
      row.yardstick = "ib_" + operation + "_lat";
      row.ratio = median(p50) / median(theirs);
    }
    print(row, options_.json);
  }

  const RdmaOptions& options_;
  const std::unique_ptr<IOEngine> engine_;
  std::unique_ptr<EngineMemory> memory_;
  std::shared_ptr<Session> session_;
  const bool has_perftest_ = has_perftest();
};

std::string first_device() {
  for (const BackendReport& report : probe_backends()) {
    if (report.name != "rdma") continue;
    if (!report.usable) die("no RDMA here: " + report.reason);
    return report.reason.substr(0, report.reason.find(':'));
  }
  die("this build has no backend rdma");
}

}  // namespace

int run_rdma(const RdmaOptions& given) {
  RdmaOptions options = given;
  if (options.device.empty()) options.device = first_device();
  if (options.sizes.empty()) {
    for (std::uint64_t size = 8; size <= kRegion; size *= 8) options.sizes.push_back(size);
  }
  if (options.batches.empty()) options.batches = {1, 128};
  if (options.operations.empty()) options.operations = {"write"};
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) die("no socket pair");
  const pid_t target = ::fork();
  if (target == 0) {
    ::close(ends[0]);
    be_target(options, ends[1]);
  }
  ::close(ends[1]);
  Initiator(options, ends[0]).run();
  ::close(ends[0]);
  ::waitpid(target, nullptr, 0);
  return 0;
}

}  // namespace stagewire::bench
