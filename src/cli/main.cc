// stagewire COMMAND ...: finds the command, nothing else.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/standard_streams.hpp"

namespace stagewire::cli {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(int argc, char** argv);
};

constexpr std::array kCommands{
    Command{"bench", "how fast payloads pass from process to process, against yardsticks", bench_command},
    Command{"check", "what a deploy file comes to, or all that is wrong with it", check_command},
    Command{"doctor", "what this machine can do, and what to change", doctor_command},
    Command{"serve", "runs a pipeline of stage processes: over one input, or as a replay of a model",
            serve_command},
};

void print_usage(std::FILE* out) {
  std::fputs("usage: stagewire COMMAND [OPTION...]\n\n", out);
  for (const Command& command : kCommands) {
    std::fprintf(out, "  %-8s %s\n", command.name, command.summary);
  }
  std::fputs("\n  stagewire COMMAND --help says more; --version prints the version.\n", out);
}

/// How many letters must be inserted, removed or changed to turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

int unknown_command(std::string_view word) {
  const auto nearest =
      std::min_element(kCommands.begin(), kCommands.end(), [&](const Command& a, const Command& b) {
        return edit_distance(word, a.name) < edit_distance(word, b.name);
      });
  std::fprintf(
      stderr, "stagewire: there is no command '%.*s'; did you mean '%s'? 'stagewire --help' lists them all\n",
      static_cast<int>(word.size()), word.data(), nearest->name);
  return kUsageError;
}

int run(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty()) {
    print_usage(stderr);
    return kUsageError;
  }
  if (word == "--help" || word == "-h" || word == "help") {
    print_usage(stdout);
    return 0;
  }
  if (word == "--version") {
    std::puts("stagewire " STAGEWIRE_VERSION);
    return 0;
  }
  for (const Command& command : kCommands) {
    if (word == command.name) return command.run(argc - 1, argv + 1);
  }
  return unknown_command(word);
}

}  // namespace
}  // namespace stagewire::cli

int main(int argc, char** argv) {
  using namespace stagewire::cli;
  if (!open_missing_streams()) return kRunError;
  int status = kRunError;
  try {
    status = run(argc, argv);
  } catch (const std::exception& failure) {  // memory, or a thread, that cannot be had
    std::fprintf(stderr, "stagewire: error: %s\n", failure.what());
  }
  return finish_output(status);
}
