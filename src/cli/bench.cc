// stagewire bench NAME: measures against yardsticks taken in the same run.
#include <CLI/CLI.hpp>

#include "bench/chunks.hpp"
#include "bench/handoff.hpp"
#include "bench/partner.hpp"
#include "bench/rdma.hpp"
#include "cli/commands.hpp"
#include "cli/number_range.hpp"
#include "stagewire/log.hpp"

namespace stagewire::cli {
namespace {

/// What every bench has.
template <typename Options>
void add_rounds(CLI::App& bench, Options& options) {
  bench.add_flag("--json", options.json, "one JSON object a line");
  bench.add_option("--rounds", options.rounds, "of each measurement, in turn with its yardstick")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  bench.add_option("--seconds", options.seconds_per_round, "about, for each round")
      ->check(number_between(0.01, 60.0))
      ->capture_default_str();
}

CLI::App* add_chunks(CLI::App& app, bench::ChunksOptions& options) {
  CLI::App* chunks = app.add_subcommand("chunks", "streams of decode chunks between two stages");
  add_rounds(*chunks, options);
  chunks
      ->add_option("--case", options.cases,
                   "only these: rate, paced, wake, first-chunk, idle, memory; memory is measured when it is "
                   "named, and not else")
      ->check(CLI::IsMember({"rate", "paced", "wake", "first-chunk", "idle", "memory"}));
  chunks
      ->add_option("--scheme", options.schemes,
                   "of rate and paced, only these: stagewire; query-pull, the original's way of receiving, "
                   "which is the yardstick")
      ->check(CLI::IsMember({"stagewire", "query-pull"}));
  chunks->add_option("--streams", options.streams, "of rate and paced, instead of 1, 16 and 64")
      ->check(CLI::Range(1, 1024));
  chunks->add_option("--chunks", options.chunks, "of memory, about")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  return chunks;
}

CLI::App* add_rdma(CLI::App& app, bench::RdmaOptions& options) {
  CLI::App* rdma = app.add_subcommand("rdma", "two engines over RDMA on this host, beside perftest");
  add_rounds(*rdma, options);
  rdma->add_option("--device", options.device, "such as mlx5_0; else the first");
  rdma->add_option("--size", options.sizes, "only these, for example 64KiB; else 8 bytes to 64 MiB")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{64} << 20));
  rdma->add_option("--batch", options.batches, "pieces of one transfer, instead of 1 and 128")
      ->check(CLI::Range(1, 4096));
  rdma->add_option("--operation", options.operations, "read or write (the default), or both")
      ->check(CLI::IsMember({"read", "write"}));
  return rdma;
}

}  // namespace

int bench_command(int argc, char** argv) {
  CLI::App app("Measures handoffs between processes; every row names its yardstick, taken in the same run.",
               "stagewire bench");
  bench::HandoffOptions options;
  int partner = -1;
  app.add_option("--partner", partner)->group("");  // the second process of a bench
  CLI::App* handoff = app.add_subcommand("handoff", "two processes on one host, by route and size");
  add_rounds(*handoff, options);
  handoff->add_option("--case", options.cases,
                      "only these: eager-block, eager-spin, lease, read, zmq-ipc, zmq-tcp, idle");
  handoff
      ->add_option("--size", options.sizes,
                   "only these, for example 4KiB or 64MiB, of the cases that have several sizes")
      ->transform(CLI::AsSizeValue(false));
  bench::ChunksOptions chunk_options;
  CLI::App* chunks = add_chunks(app, chunk_options);
  bench::RdmaOptions rdma_options;
  CLI::App* rdma = add_rdma(app, rdma_options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  set_log_level(LogLevel::warning);
  if (partner >= 0) return bench::partner_main(partner);
  if (chunks->parsed()) return bench::run_chunks(chunk_options);
  if (rdma->parsed()) return bench::run_rdma(rdma_options);
  if (handoff->parsed()) {
    const std::string problem = bench::handoff_problem(options);
    if (problem.empty()) return bench::run_handoff(options);
    std::fprintf(stderr, "stagewire bench handoff: %s\n", problem.c_str());
    return kUsageError;
  }
  std::fputs(app.help().c_str(), stderr);
  return kUsageError;
}

}  // namespace stagewire::cli
