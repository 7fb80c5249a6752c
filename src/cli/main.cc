// stagewire COMMAND ...: finds the command, nothing else.
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/standard_streams.hpp"
#include "stagewire/deploy.hpp"

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

int unknown_command(std::string_view word) {
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  std::fprintf(stderr, "stagewire: there is no command '%.*s'%s ('stagewire --help' says more)\n",
               static_cast<int>(word.size()), word.data(), suggestion(word, names).c_str());
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
