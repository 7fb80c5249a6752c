// Verbs that fail while a backend or a connection is set up: a clear error or another try, and nothing is
// left behind.
#include <cerrno>
#include <set>

#include "fake_verbs/fixture.hpp"

namespace stagewire::fake_verbs {
namespace {

constexpr const char* kOfTheFactory[] = {"open_device",         "query_device", "query_port", "alloc_pd",
                                         "create_comp_channel", "create_cq",    "reg_mr",     "create_qp",
                                         "modify_qp",           "post_recv"};

// All of a few, some of many.
std::vector<int> some_of(int count) {
  std::vector<int> some;
  for (int nth = 1; nth <= count; nth += nth < 4 ? 1 : count / 3) some.push_back(nth);
  if (count > 0 && some.back() != count) some.push_back(count);
  return some;
}

class FakeVerbsSetUp : public FakeVerbs, public ::testing::WithParamInterface<const char*> {};

TEST_P(FakeVerbsSetUp, a_failing_call_ends_the_factory_with_its_reason) {
  control().set_devices(1);
  make_sides();
  a_.reset();
  b_.reset();
  // These three are tried with the number of a second port.
  const bool of_the_second_port =
      std::set<std::string>{"open_device", "query_device", "query_port"}.contains(GetParam());
  const int count = control().calls(GetParam()) / 2;
  ASSERT_GT(count, 0);
  for (const int nth : some_of(count)) {
    control().reset();
    control().fail_call(GetParam(), nth, ENOSPC);
    const auto created = backend::create_backend("rdma", options());
    if (nth == 2 && of_the_second_port) {
      EXPECT_TRUE(created.ok()) << "there is no second port anyway";
      continue;
    }
    ASSERT_FALSE(created.ok()) << nth;
    const std::string text = created.error().to_string();
    EXPECT_NE(text.find("fake0:1"), std::string::npos) << text;
    EXPECT_NE(text.find("No space left on device"), std::string::npos) << text;
    expect_nothing_is_left();
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, FakeVerbsSetUp, ::testing::ValuesIn(kOfTheFactory),
                         [](const auto& tested) { return std::string(tested.param); });

constexpr const char* kOfAConnection[] = {"reg_mr",    "create_qp", "modify_qp", "post_recv",
                                          "create_ah", "post_send", "poll_cq"};

class FakeVerbsConnect : public FakeVerbs, public ::testing::WithParamInterface<const char*> {
 protected:
  /// How often the function is called by a connection that is made and used once.
  int calls_of_a_connection() {
    make_sides();
    const int before = control().calls(GetParam());
    use_connection();
    return control().calls(GetParam()) - before;
  }
  void use_connection() {
    to_b_ = a_->connect(*b_);
    ASSERT_TRUE(until([&] { return to_b_->status().has_value(); }));
    ASSERT_TRUE(to_b_->status()->ok()) << to_b_->status()->error().to_string();
    b_->events.messages.clear();
    send("hello");
    ASSERT_TRUE(until([&] { return b_->events.messages.size() == 1; }));
    to_b_.reset();
    ASSERT_TRUE(until([&] { return b_->events.lost.size() == b_->events.arrived.size(); }));
  }
};

TEST_P(FakeVerbsConnect, one_failing_call_costs_another_try) {
  const int count = std::max(1, calls_of_a_connection());
  for (const int nth : some_of(std::min(count, 200))) {
    SCOPED_TRACE(nth);
    control().fail_call(GetParam(), nth, ENOSPC);
    use_connection();
    ASSERT_FALSE(HasFailure());
    control().fail_call(GetParam(), 0, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, FakeVerbsConnect, ::testing::ValuesIn(kOfAConnection),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_F(FakeVerbs, R05_a_connection_that_cannot_be_made_ends_with_the_reason) {
  for (const char* function : {"reg_mr", "create_qp", "modify_qp", "post_recv", "create_ah"}) {
    SCOPED_TRACE(function);
    make_sides({{"rdma_recovery_timeout_ms", "300"}});
    control().fail_calls_from(function, 1, ENOSPC);
    to_b_ = a_->connect(*b_);
    ASSERT_TRUE(until([&] { return to_b_->status().has_value(); }));
    ASSERT_FALSE(to_b_->status()->ok());
    EXPECT_EQ(to_b_->status()->error().code(), ErrorCode::unavailable);
    EXPECT_NE(to_b_->status()->error().message().find("No space left on device"), std::string::npos)
        << to_b_->status()->error().message();
    to_b_.reset();
    a_.reset();
    b_.reset();
    expect_nothing_is_left();
    control().reset();
  }
}

TEST_F(FakeVerbs, without_devices_the_error_says_so) {
  control().set_devices(0);
  const auto created = backend::create_backend("rdma", options());
  ASSERT_FALSE(created.ok());
  EXPECT_EQ(created.error().code(), ErrorCode::unsupported);
}

TEST_F(FakeVerbs, a_device_whose_port_is_down_is_left_out) {
  control().set_devices(2);
  control().set_port(0, false);
  const auto created = backend::create_backend("rdma", options());
  ASSERT_TRUE(created.ok()) << created.error().to_string();
  EXPECT_EQ((*created)->describe().find("fake0"), std::string::npos);
  EXPECT_NE((*created)->describe().find("fake1:1: GID 3, RoCE v2, 10.77.0.2"), std::string::npos)
      << (*created)->describe();
}

TEST_F(FakeVerbs, memory_that_cannot_be_locked_is_an_error_that_names_the_limit) {
  make_sides();
  const Memory memory(4096);
  control().fail_call("reg_mr", 1, ENOMEM);
  const auto refused = a_->backend->register_region(memory.region(), Access::local_only);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::exhausted);
  EXPECT_NE(refused.error().message().find("ulimit -l"), std::string::npos);
  EXPECT_TRUE(a_->backend->register_region(memory.region(), Access::local_only).ok());
}

}  // namespace
}  // namespace stagewire::fake_verbs
