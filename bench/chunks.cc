#include "chunks.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "chunk_sender.hpp"
#include "die.hpp"
#include "process_cost.hpp"
#include "row.hpp"
#include "yardsticks.hpp"

namespace stagewire::bench {
namespace {

constexpr double MiB = 1 << 20;
constexpr std::uint32_t kMostStreams = 64;
constexpr const char* kQueryPull = "query-pull";

bool named(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

/// One scheme's figures, a number a round.
struct Figures {
  std::vector<double> rate, p50, p99;
};

struct Scheme {
  explicit Scheme(bool query_pull) : sender({.query_pull = query_pull}) {}
  ChunkSender sender;
  Figures figures;
};

class Chunks {
 public:
  explicit Chunks(const ChunksOptions& options) : options_(options) {}
  void run();

 private:
  bool wanted(const std::string& name) const { return named(options_.cases, name); }
  void streams();
  void measure(Scheme& scheme, std::uint32_t streams) const;
  void print_streams(std::uint32_t streams, const Figures* ours, const Figures* theirs) const;
  void wake() const;
  void first_chunk() const;
  void idle() const;
  void memory() const;
  Finding finding(const std::string& name, std::uint32_t streams, const std::string& figure,
                  double value) const;

  const ChunksOptions options_;
};

Finding Chunks::finding(const std::string& name, std::uint32_t streams, const std::string& figure,
                        double value) const {
  Finding made;
  made.bench = "chunks";
  made.name = name;
  made.streams = streams;
  made.figure = figure;
  made.value = value;
  return made;
}

void Chunks::measure(Scheme& scheme, std::uint32_t streams) const {
  ChunkSender& sender = scheme.sender;
  sender.begin(streams);
  if (wanted("rate")) {
    const double about = sender.send(std::max(1U, 512 / streams));
    const double count = about * options_.seconds_per_round / streams;
    scheme.figures.rate.push_back(sender.send(static_cast<std::uint32_t>(std::max(count, 2.0))));
  }
  if (wanted("paced")) {
    const double steps = options_.seconds_per_round * ChunkSender::kStepsPerSecond;
    std::vector<double> times = sender.send_paced(static_cast<std::uint32_t>(std::max(steps, 2.0)));
    scheme.figures.p50.push_back(percentile(times, 0.5));
    scheme.figures.p99.push_back(percentile(times, 0.99));
  }
  sender.end();
}

void Chunks::streams() {
  if (!wanted("rate") && !wanted("paced")) return;
  std::unique_ptr<Scheme> ours, theirs;
  if (named(options_.schemes, "stagewire")) ours = std::make_unique<Scheme>(false);
  if (named(options_.schemes, kQueryPull)) theirs = std::make_unique<Scheme>(true);
  const std::vector<std::uint32_t> all{1, 16, kMostStreams};
  for (const std::uint32_t streams : options_.streams.empty() ? all : options_.streams) {
    for (Scheme* scheme : {ours.get(), theirs.get()}) {
      if (scheme != nullptr) scheme->figures = {};
    }
    for (int round = 0; round < options_.rounds; ++round) {
      for (Scheme* scheme : {theirs.get(), ours.get()}) {
        if (scheme != nullptr) measure(*scheme, streams);
      }
    }
    print_streams(streams, ours ? &ours->figures : nullptr, theirs ? &theirs->figures : nullptr);
  }
}

void Chunks::print_streams(std::uint32_t streams, const Figures* ours, const Figures* theirs) const {
  const auto compare = [&](const char* name, const char* figure, std::vector<double> Figures::*values) {
    const Figures* const first = ours != nullptr ? ours : theirs;
    Finding made = finding(name, streams, figure, median(first->*values));
    if (ours == nullptr) made.name += std::string(" (") + kQueryPull + ")";
    if (ours != nullptr && theirs != nullptr) {
      made.yardstick = kQueryPull;
      made.yardstick_value = median(theirs->*values);
    }
    return made;
  };
  const bool with_aim = ours != nullptr && theirs != nullptr && streams == kMostStreams;
  if (wanted("rate")) {
    Finding rate = compare("rate", "chunks/s", &Figures::rate);
    if (with_aim) rate.aim = at_least(rate, 10);
    print(rate, options_.json);
  }
  if (wanted("paced")) {
    print(compare("paced", "p50 us", &Figures::p50), options_.json);
    Finding p99 = compare("paced", "p99 us", &Figures::p99);
    if (with_aim) p99.aim = at_most(p99, 0.1);
    print(p99, options_.json);
  }
}

void Chunks::wake() const {
  if (!wanted("wake")) return;
  ChunkSender sender({.wait = WaitStrategy::block});
  sender.begin(1);
  const auto count = static_cast<std::uint32_t>(std::clamp(options_.seconds_per_round * 5e3, 10.0, 5000.0));
  Figures ours;
  std::vector<double> theirs;
  for (int round = 0; round < options_.rounds; ++round) {
    theirs.push_back(median(futex_one_way(static_cast<int>(count))));
    std::vector<double> times = sender.send_one_by_one(count);
    ours.p50.push_back(percentile(times, 0.5));
    ours.p99.push_back(percentile(times, 0.99));
  }
  sender.end();
  Finding p50 = finding("wake", 1, "p50 us", median(ours.p50));
  p50.yardstick = "futex wake p50";
  p50.yardstick_value = median(theirs);
  p50.aim = at_most(p50, 5);
  print(p50, options_.json);
  print(finding("wake", 1, "p99 us", median(ours.p99)), options_.json);
}

void Chunks::first_chunk() const {
  if (!wanted("first-chunk")) return;
  constexpr std::int64_t kPromptTokens = 8192;
  constexpr int kEach = 4;  // of a round
  ModelRows embedding(kPromptTokens + 1);
  ModelRows hidden(kPromptTokens + 1);
  const Value payload = first_chunk_payload(embedding, hidden);
  const std::size_t size = checked(encoded_size(payload));
  ChunkSender sender({.pool_size = 256ULL << 20U, .as_made = true});
  CopyYardstick copy(size, 1, 2);
  std::vector<double> ours, theirs;
  for (int round = 0; round < options_.rounds; ++round) {
    theirs.push_back(copy.gb_per_s(kEach));
    std::vector<double> times;
    for (int i = 0; i < kEach; ++i) times.push_back(sender.send_whole(payload, embedding));
    ours.push_back(static_cast<double>(size) / median(times) / 1e3);
  }
  Finding speed = finding("first-chunk", 1, "GB/s", median(ours));
  speed.yardstick = "memcpy";
  speed.yardstick_value = median(theirs);
  speed.aim = at_least(speed, 0.8);
  print(speed, options_.json);
}

void Chunks::idle() const {
  if (!wanted("idle")) return;
  ChunkSender sender({});
  sender.begin(kMostStreams);
  // Both map the other's pool while they meet; that is not idling.
  std::this_thread::sleep_for(std::chrono::seconds(1));
  Finding share = finding("idle", kMostStreams, "% of a core", 100 * idle_share(sender.partner(), 3));
  share.yardstick = "one core";
  share.yardstick_value = 100;
  share.aim = Aim{"under 0.5 %", share.value < 0.5};
  sender.end();
  print(share, options_.json);
}

// Requests that begin and end, 64 at once, about 10,000 chunks each time.
void Chunks::memory() const {
  if (options_.cases.empty() || !wanted("memory")) return;
  constexpr std::uint32_t kChunksEach = 156;  // and the first one
  ChunkSender sender({});
  const std::pair free(sender.pool_free(), sender.partner_pool_free());
  std::optional<std::pair<double, double>> start;
  std::pair<double, double> end;
  for (std::uint64_t sent = 0; sent < options_.chunks || !start;) {
    sender.begin(kMostStreams);
    sender.send(kChunksEach);
    sender.end();
    sent += std::uint64_t{kMostStreams} * (kChunksEach + 2);
    end = {resident_bytes(), resident_bytes(sender.partner())};
    if (!start) start = end;
  }
  const auto print_growth = [&](const char* figure, double before, double after) {
    Finding made = finding("memory", kMostStreams, figure, (after - before) / MiB);
    made.yardstick = "MiB after 10,000";
    made.yardstick_value = before / MiB;
    made.aim = Aim{"at most 1 MiB", made.value <= 1};
    print(made, options_.json);
  };
  print_growth("sender grew by MiB", start->first, end.first);
  print_growth("receiver grew by MiB", start->second, end.second);
  const auto print_pool = [&](const char* figure, std::uint64_t before, std::uint64_t after) {
    Finding made = finding("memory", kMostStreams, figure, static_cast<double>(after));
    made.yardstick = "at the start";
    made.yardstick_value = static_cast<double>(before);
    made.aim = Aim{"the same", before == after};
    print(made, options_.json);
  };
  print_pool("sender's pool free", free.first, sender.pool_free());
  print_pool("receiver's pool free", free.second, sender.partner_pool_free());
}

void Chunks::run() {
  take_core(0);  // the partners take the other
  print_finding_header(options_.json);
  streams();
  wake();
  first_chunk();
  idle();
  memory();
}

}  // namespace

int run_chunks(const ChunksOptions& options) {
  Chunks(options).run();
  return 0;
}

}  // namespace stagewire::bench
