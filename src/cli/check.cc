// stagewire check FILE: what a deploy file comes to, or all that is wrong with it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/plan_text.hpp"
#include "stagewire/deploy.hpp"

namespace stagewire::cli {
namespace {

struct CheckArguments {
  std::string file;
  std::string format = "text";
  DeployOptions options;
  bool reference = false;
};

void add_options(CLI::App& app, CheckArguments& arguments) {
  app.add_option("file", arguments.file, "the deploy file");
  app.add_option("--format", arguments.format, "text or json")->check(CLI::IsMember({"text", "json"}));
  app.add_option("--set", arguments.options.overrides,
                 "path=value, as if it stood in the file: stages.1.devices=2; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--platform", arguments.options.platform, "apply this section of `platforms`");
  app.add_flag("--reference", arguments.reference, "print the reference of all keys (Markdown) and end");
}

int report_failure(const DeployResult& result, const CheckArguments& arguments) {
  std::size_t errors = 0;
  for (const Diagnostic& one : result.diagnostics) {
    std::fprintf(stderr, "%s\n", one.to_string().c_str());
    if (one.severity == Diagnostic::Severity::error) ++errors;
  }
  std::fprintf(stderr, "%s: %zu error%s\n", arguments.file.c_str(), errors, errors == 1 ? "" : "s");
  if (arguments.format == "json") std::puts(failure_json(result).c_str());
  return kUsageError;
}

}  // namespace

int check_command(int argc, char** argv) {
  CLI::App app("Reads a deploy file strictly and prints the plan that it comes to, or every error in it.",
               "stagewire check");
  CheckArguments arguments;
  add_options(app, arguments);
  try {
    app.parse(argc, argv);
    if (arguments.file.empty() && !arguments.reference) throw CLI::RequiredError("file");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  if (arguments.reference) {
    std::fputs(deploy_reference().c_str(), stdout);
    return 0;
  }
  const DeployResult result = load_deploy(arguments.file, arguments.options);
  if (!result.plan) return report_failure(result, arguments);
  std::fputs((arguments.format == "json" ? plan_json(*result.plan) : plan_text(*result.plan)).c_str(),
             stdout);
  return 0;
}

}  // namespace stagewire::cli
