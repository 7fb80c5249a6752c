// stagewire bench NAME: measures against yardsticks taken in the same run.
#include <CLI/CLI.hpp>

#include "bench/handoff.hpp"
#include "bench/partner.hpp"
#include "cli/commands.hpp"
#include "stagewire/log.hpp"

namespace stagewire::cli {

int bench_command(int argc, char** argv) {
  CLI::App app("Measures handoffs between processes; every row names its yardstick, taken in the same run.",
               "stagewire bench");
  bench::HandoffOptions options;
  int partner = -1;
  app.add_option("--partner", partner)->group("");  // the second process of a bench
  CLI::App* handoff = app.add_subcommand("handoff", "two processes on one host, by route and size");
  handoff->add_flag("--json", options.json, "one JSON object a line");
  handoff->add_option("--rounds", options.rounds, "of each measurement, in turn with its yardstick")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  handoff->add_option("--seconds", options.seconds_per_round, "about, for each round")
      ->check(CLI::Range(0.01, 60.0))
      ->capture_default_str();
  handoff->add_option("--case", options.cases,
                      "only these: eager-block, eager-spin, lease, read, zmq-ipc, zmq-tcp, idle");
  handoff
      ->add_option("--size", options.sizes,
                   "only these, for example 4KiB or 64MiB, of the cases that have several sizes")
      ->transform(CLI::AsSizeValue(false));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  set_log_level(LogLevel::warning);
  if (partner >= 0) return bench::partner_main(partner);
  if (handoff->parsed()) return bench::run_handoff(options);
  std::fputs(app.help().c_str(), stderr);
  return kUsageError;
}

}  // namespace stagewire::cli
