// Nodes in two network namespaces, which is as good as two hosts for everything but the data: other
// addresses, another loopback interface, a link that can be cut. Needs root and `ip`.
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "process/nodes_fixture.hpp"

namespace stagewire {
namespace {

using test::ServeProcess;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Whether `ip ...` went well.
bool ip(const std::vector<std::string>& words) {
  pipeline::ChildOptions options;
  options.command = {"ip"};
  options.command.insert(options.command.end(), words.begin(), words.end());
  auto child = pipeline::ChildProcess::start(options);
  if (!child.ok()) return false;
  EXPECT_TRUE(test::eventually([&] { return child->try_reap().has_value(); }));
  return child->try_reap() && child->try_reap()->success();
}

/// Two namespaces with an address each and a cable between them; gone with this.
class TwoNetworks {
 public:
  TwoNetworks() {
    usable_ =
        ip({"netns", "add", a()}) && ip({"netns", "add", b()}) &&
        ip({"link", "add", link(0), "netns", a(), "type", "veth", "peer", "name", link(1), "netns", b()});
    if (!usable_) return;
    for (const auto& [network, number] : {std::pair(a(), 0), std::pair(b(), 1)}) {
      const std::string address = "10.77.0." + std::to_string(number + 1) + "/24";
      usable_ = usable_ && ip({"-n", network, "address", "add", address, "dev", link(number)}) &&
                ip({"-n", network, "link", "set", link(number), "up"}) &&
                ip({"-n", network, "link", "set", "lo", "up"});
    }
  }
  TwoNetworks(const TwoNetworks&) = delete;
  TwoNetworks& operator=(const TwoNetworks&) = delete;
  ~TwoNetworks() {
    ip({"netns", "delete", a()});
    ip({"netns", "delete", b()});
  }

  bool usable() const { return usable_; }
  bool cut() const { return ip({"-n", b(), "link", "set", link(1), "down"}); }
  bool mend() const { return ip({"-n", b(), "link", "set", link(1), "up"}); }
  static std::vector<std::string> in_a() { return {"ip", "netns", "exec", a()}; }
  static std::vector<std::string> in_b() { return {"ip", "netns", "exec", b()}; }

 private:
  static std::string name(const std::string& which) { return "sw" + which + std::to_string(::getpid()); }
  static std::string a() { return name("a"); }
  static std::string b() { return name("b"); }
  static std::string link(int number) { return name(number == 0 ? "v" : "w"); }

  bool usable_ = false;
};

constexpr const char* kMasterAddress = "10.77.0.1";
const std::string kHost = "connectors.omni.extra.host";

class NodesNetwork : public test::NodesTest {
 protected:
  void SetUp() override {
    networks_.emplace();
    if (!networks_->usable())
      GTEST_SKIP() << "network namespaces cannot be made here: that takes root and iproute2";
  }

  Words secret_and(const Words& more) const { return join({"--secret-file", secret("secret", 'a')}, more); }

  ServeProcess in_a(const std::string& stages, int port, const Words& more) const {
    return node(stages, port, secret_and(more), kMasterAddress, TwoNetworks::in_a());
  }
  ServeProcess in_b(const std::string& stages, int port, const Words& more) const {
    return node(stages, port, secret_and(more), kMasterAddress, TwoNetworks::in_b());
  }

  /// Of a run in which nothing has to pass between the hosts for a minute.
  Words quiet(const std::string& heartbeat_timeout) const {
    std::string trace;
    for (const auto& [stage, unit] : {std::pair("thinker", "rows"), std::pair("talker", "frames")}) {
      nlohmann::json step{
          {"t_ms", 60'000}, {"request", "a"}, {"stage", stage}, {unit, 2}, {"finished", true}};
      trace += step.dump() + "\n";
    }
    test::write_file(dir_.file("trace"), trace);
    return {"--trace", dir_.file("trace"), "--rate", "real", "--omni-heartbeat-timeout", heartbeat_timeout,
            "--set",   kHost + "=auto"};
  }

  std::optional<TwoNetworks> networks_;
};

TEST_F(NodesNetwork, R10_stages_register_their_own_addresses_and_what_no_backend_joins_is_said) {
  ServeProcess first = in_a("0", 0, small({"--set", kHost + "=auto", "--timeout", "10"}));
  ServeProcess second = in_b("1,2", port_of(first), {"--set", kHost + "=auto"});
  // No data backend reaches from one to the other. So far they came: the address is right, the secret, too.
  expect_error(first, "request request-0 failed: stage 1 (talker): unavailable: ");
  EXPECT_THAT(first.output(), AllOf(HasSubstr("no backend reaches "), HasSubstr("(sender) at 10.77.0.1:")));
  expect_error(second, "1 request failed: the master says why");
  EXPECT_THAT(second.output(),
              AllOf(HasSubstr("(dual) at 10.77.0.2:"), HasSubstr("(receiver) at 10.77.0.2:")));
}

TEST_F(NodesNetwork, R10_a_loopback_address_is_not_told_to_another_host) {
  ServeProcess first = in_a("0", 0, small({"--set", kHost + "=127.0.0.1"}));
  ServeProcess second = in_b("1,2", port_of(first), {"--set", kHost + "=127.0.0.1"});
  const std::string words =
      "stage 0 listens at 127.0.0.1, which stage 1 cannot reach from its host: set the connector's `host`";
  expect_error(first, words);
  expect_error(second, words);
}

TEST_F(NodesNetwork, R16_without_a_secret_both_say_so_and_insecure_is_explicit) {
  ServeProcess refused = node("0", 0, small(), kMasterAddress, TwoNetworks::in_a());
  expect_error(refused, "the master at 10.77.0.1 is open to other hosts, and there is no secret", 2);
  ServeProcess first =
      node("0", 0, small({"--insecure", "--omni-start-timeout", "3"}), kMasterAddress, TwoNetworks::in_a());
  const int port = port_of(first);
  ServeProcess caller = node("1,2", port, {}, kMasterAddress, TwoNetworks::in_b());
  expect_error(caller, "the master at 10.77.0.1 is open to other hosts", 2);
  ServeProcess second = node("1", port, {"--insecure"}, kMasterAddress, TwoNetworks::in_b());
  first.wait_for("stage 1) is there");
  expect_error(first, "stage 2 did not come");
  expect_error(second, "stage 2 did not come");
}

TEST_F(NodesNetwork, a_cut_link_is_noticed_by_both_sides_within_the_heartbeat_timeout) {
  ServeProcess first = in_a("0", 0, small({"--omni-heartbeat-timeout", "1"}));
  const int port = port_of(first);
  ServeProcess second = in_b("1", port, {});
  first.wait_for("stage 1) is there");
  ASSERT_TRUE(networks_->cut());
  expect_error(second, "unavailable: nothing was heard from the master at 10.77.0.1:" + std::to_string(port) +
                           " for 1000 ms");
  first.wait_for("(pid " + std::to_string(second.pid()) +
                 ", stage 1): nothing was heard from it for 1000 ms");
  ASSERT_TRUE(test::send_signal(first.pid(), SIGINT));
  expect_error(first, "interrupted by SIGINT");
}

TEST_F(NodesNetwork, in_the_run_a_short_cut_does_no_harm_and_a_long_one_ends_both_sides) {
  ServeProcess first = in_a("0", 0, quiet("3"));
  const int port = port_of(first);
  ServeProcess second = in_b("1,2", port, {"--set", kHost + "=auto"});
  for (const char* stage : {"stage 1 (dual) at 10.77.0.2", "stage 2 (receiver) at 10.77.0.2"})
    second.wait_for(stage);
  first.wait_for("stage 0 (sender) at 10.77.0.1");
  ASSERT_TRUE(networks_->cut());
  std::this_thread::sleep_for(std::chrono::seconds(1));  // how long a cut is, is what is tried
  ASSERT_TRUE(networks_->mend());
  const pid_t victim = second.stage(2);
  ASSERT_TRUE(test::send_signal(victim, SIGKILL));
  const std::string words = "stage 2 (code2wav, pid " + std::to_string(victim) + " on ";
  expect_error(first, words);
  expect_error(second, words);

  ServeProcess third = in_a("0", 0, quiet("1"));
  ServeProcess fourth = in_b("1,2", port_of(third), {"--set", kHost + "=auto"});
  fourth.wait_for("stage 2 (receiver) at 10.77.0.2");
  third.wait_for("stage 0 (sender) at 10.77.0.1");
  ASSERT_TRUE(networks_->cut());
  expect_error(third, "(pid " + std::to_string(fourth.pid()) +
                          ", stages 1, 2): nothing was heard from it for 1000 ms");
  expect_error(fourth, "nothing was heard from the master at 10.77.0.1");
}

}  // namespace
}  // namespace stagewire
