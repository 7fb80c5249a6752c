#include "pipeline/secrecy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/temp_dir.hpp"
#include "support/wav_bytes.hpp"

namespace stagewire::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kHex(64, 'a');

class Secrecy : public ::testing::Test {
 protected:
  std::string file(const std::string& text, mode_t mode = 0600) const {
    test::write_file(dir_.file("secret"), text);
    EXPECT_EQ(::chmod(dir_.file("secret").c_str(), mode), 0);
    return dir_.file("secret");
  }

  /// Two stages with connectors that bind there.
  static DeployPlan plan(const std::string& host) {
    DeployPlan plan;
    for (int id = 0; id < 2; ++id) {
      StagePlan stage;
      stage.stage_id = id;
      stage.connector.emplace();
      stage.connector->host = host;
      plan.stages.push_back(stage);
    }
    return plan;
  }

  static NodeOptions node(const std::string& master, std::vector<int> stages) {
    NodeOptions options;
    options.master_address = master;
    options.stage_ids = std::move(stages);
    return options;
  }

  test::TempDir dir_;
};

TEST_F(Secrecy, a_key_is_read_whatever_space_is_around_it) {
  const auto bare = read_secret_file(file(kHex));
  ASSERT_TRUE(bare.ok()) << bare.error().to_string();
  const auto spaced = read_secret_file(file("  " + kHex + "\r\n\n"));
  ASSERT_TRUE(spaced.ok());
  EXPECT_EQ(*bare, *spaced);
}

TEST_F(Secrecy, R16_a_file_that_others_may_use_is_refused) {
  for (const mode_t mode : {0640U, 0604U, 0620U, 0644U}) {
    const auto read = read_secret_file(file(kHex, mode));
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code(), ErrorCode::permission);
    EXPECT_THAT(read.error().message(), HasSubstr("chmod 600"));
  }
}

TEST_F(Secrecy, R16_what_is_no_key_is_refused_and_not_repeated) {
  for (const std::string& text :
       {std::string(), std::string("\n"), "hunter2-" + kHex, std::string(5000, 'a')}) {
    const auto read = read_secret_file(file(text));
    ASSERT_FALSE(read.ok());
    EXPECT_THAT(read.error().message(), AllOf(HasSubstr("openssl rand -hex 32"), Not(HasSubstr("hunter2"))));
  }
  EXPECT_EQ(read_secret_file(dir_.file("none")).error().code(), ErrorCode::not_found);
  EXPECT_EQ(read_secret_file(dir_.path().string()).error().code(), ErrorCode::invalid_argument);
}

TEST_F(Secrecy, R16_without_a_secret_nothing_is_open_to_other_hosts_unless_it_is_said) {
  DeployPlan local = plan("127.0.0.1");
  EXPECT_TRUE(secure_nodes(local, node("127.0.0.1", {0})).ok());
  const auto open_master = secure_nodes(local, node("10.1.2.3", {0}));
  ASSERT_FALSE(open_master.ok());
  EXPECT_EQ(open_master.error().code(), ErrorCode::permission);
  EXPECT_THAT(open_master.error().message(), AllOf(HasSubstr("the master at 10.1.2.3 is open to other hosts"),
                                                   HasSubstr("--secret-file"), HasSubstr("--insecure")));
  DeployPlan open = plan("127.0.0.1");
  open.stages[1].connector->host = "10.1.2.3";
  EXPECT_TRUE(secure_nodes(open, node("127.0.0.1", {0})).ok()) << "stage 1 is bound elsewhere";
  EXPECT_THAT(secure_nodes(open, node("127.0.0.1", {1})).error().message(),
              HasSubstr("stage 1 (host: 10.1.2.3) is open"));
  NodeOptions careless = node("10.1.2.3", {0, 1});
  careless.insecure = true;
  EXPECT_TRUE(secure_nodes(open, careless).ok());
  EXPECT_EQ(open.stages[1].connector->secret_key, "");
}

TEST_F(Secrecy, the_nodes_key_is_the_connectors_that_have_none) {
  DeployPlan all = plan("10.1.2.3");
  all.stages[1].connector->secret_key = "own";
  NodeOptions with_file = node("10.1.2.3", {0, 1});
  with_file.secret_file = file(kHex);
  const auto key = secure_nodes(all, with_file);
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(all.stages[0].connector->secret_key, *key);
  EXPECT_EQ(all.stages[1].connector->secret_key, "own");

  DeployPlan one = plan("10.1.2.3");
  one.stages[1].connector->secret_key = "own";
  const auto found = secure_nodes(one, node("10.1.2.3", {0}));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, "own");
  EXPECT_EQ(one.stages[0].connector->secret_key, "own");
}

TEST_F(Secrecy, R16_children_of_one_process_get_a_key_of_their_own_where_others_can_call) {
  DeployPlan local = plan("127.0.0.1");
  ASSERT_TRUE(secure_children(local).ok());
  EXPECT_EQ(local.stages[0].connector->secret_key, "");
  DeployPlan first = plan("10.1.2.3");
  DeployPlan second = plan("10.1.2.3");
  ASSERT_TRUE(secure_children(first).ok());
  ASSERT_TRUE(secure_children(second).ok());
  EXPECT_EQ(first.stages[0].connector->secret_key.size(), 64U);
  EXPECT_EQ(first.stages[0].connector->secret_key, first.stages[1].connector->secret_key);
  EXPECT_NE(first.stages[0].connector->secret_key, second.stages[0].connector->secret_key);
  DeployPlan given = plan("10.1.2.3");
  given.stages[0].connector->secret_key = "own";
  ASSERT_TRUE(secure_children(given).ok());
  EXPECT_EQ(given.stages[1].connector->secret_key, "");
}

}  // namespace
}  // namespace stagewire::pipeline
