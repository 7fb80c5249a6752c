#include "pipeline/node_registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagewire::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Hello node(const std::string& name, std::vector<int> stages) {
  Hello hello;
  hello.release = "0.1.0";
  hello.name = name;
  hello.pid = 7;
  hello.instance = name + "-1";
  hello.pipeline = "qwen3_omni_moe";
  hello.stages = std::move(stages);
  hello.plan = {{"stage 0", "a"}, {"stage 1", "b"}, {"the edges", "c"}};
  return hello;
}

NodeRegistry registry() {
  Hello own = node("master", {0});
  own.options = {{"--requests", "8"}, {"--seed", "1"}};
  return NodeRegistry(own, {0, 1, 2});
}

void expect_refused(NodeRegistry nodes, const Hello& hello, ErrorCode code, const std::string& words) {
  const Status status = nodes.admit("x", hello);
  ASSERT_FALSE(status.ok()) << words;
  EXPECT_EQ(status.error().code(), code);
  EXPECT_THAT(status.error().message(), HasSubstr(words));
  EXPECT_EQ(nodes.find("x"), nullptr);
}

TEST(NodeRegistry, stages_are_missing_until_their_nodes_have_come) {
  NodeRegistry nodes = registry();
  EXPECT_THAT(nodes.missing(), ElementsAre(1, 2));
  ASSERT_TRUE(nodes.admit("b", node("b", {2})).ok());
  EXPECT_THAT(nodes.missing(), ElementsAre(1));
  ASSERT_TRUE(nodes.admit("c", node("c", {1})).ok());
  EXPECT_THAT(nodes.missing(), IsEmpty());
  nodes.remove("b");
  EXPECT_THAT(nodes.missing(), ElementsAre(2));
}

TEST(NodeRegistry, a_stage_that_somebody_has_is_refused_with_its_owner) {
  NodeRegistry nodes = registry();
  ASSERT_TRUE(nodes.admit("b", node("b", {1, 2})).ok());
  expect_refused(nodes, node("c", {2}), ErrorCode::conflict,
                 "stage 2 is run by node b (pid 7, stages 1, 2) already");
  expect_refused(nodes, node("c", {0}), ErrorCode::conflict,
                 "stage 0 is run by the master, node master (pid 7, stage 0)");
}

TEST(NodeRegistry, R09_a_node_that_calls_again_takes_its_own_place) {
  NodeRegistry nodes = registry();
  ASSERT_TRUE(nodes.admit("first", node("b", {1, 2})).ok());
  ASSERT_TRUE(nodes.admit("second", node("b", {1, 2})).ok());
  EXPECT_EQ(nodes.find("first"), nullptr);
  EXPECT_NE(nodes.find("second"), nullptr);
  EXPECT_EQ(nodes.nodes().size(), 1U);
}

TEST(NodeRegistry, nodes_that_mean_other_things_are_refused_with_what_differs) {
  Hello hello = node("b", {1});
  hello.stages = {1, 3};
  expect_refused(registry(), hello, ErrorCode::invalid_argument,
                 "there is no stage 3, the run has stages 0, 1, 2");
  hello.stages = {};
  expect_refused(registry(), hello, ErrorCode::invalid_argument, "it names no stage");
  hello = node("b", {1});
  hello.release = "0.2.0";
  expect_refused(registry(), hello, ErrorCode::invalid_argument, "it is stagewire 0.2.0");
  hello = node("b", {1});
  hello.protocol = kNodeProtocol + 1;
  expect_refused(registry(), hello, ErrorCode::invalid_argument, "install the same release");
  hello = node("b", {1});
  hello.pipeline = "qwen2_5_omni";
  expect_refused(registry(), hello, ErrorCode::invalid_argument, "give both the same model");
  hello = node("b", {1});
  hello.plan["stage 1"] = "z";
  expect_refused(registry(), hello, ErrorCode::invalid_argument,
                 "other things than the master's of stage 1:");
  hello.plan.erase("the edges");
  expect_refused(registry(), hello, ErrorCode::invalid_argument, "of stage 1, the edges:");
  hello = node("b", {1});
  hello.plan["stage 9"] = "z";
  expect_refused(registry(), hello, ErrorCode::invalid_argument, "of more stages");
  hello = node("b", {1});
  hello.options = {{"--requests", "4"}, {"--seed", "1"}, {"--new", "x"}};
  const Status status = registry().admit("x", hello);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), AllOf(HasSubstr("--requests is 4 there and 8 at the master"),
                                              HasSubstr("--new is x there and not known at the master")));
}

}  // namespace
}  // namespace stagewire::pipeline
