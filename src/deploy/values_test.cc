// Typed values, sizes, environment references, nearest words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "deploy/connectors.hpp"
#include "deploy/environment.hpp"
#include "deploy/nearest.hpp"
#include "deploy/schema.hpp"
#include "deploy/test_support.hpp"
#include "deploy/yaml_reader.hpp"

namespace stagewire::deploy {
namespace {

using testing::HasSubstr;

TEST(Size, R14_units_and_plain_bytes) {
  EXPECT_EQ(*parse_size("536870912"), 536870912U);
  EXPECT_EQ(*parse_size("512MiB"), 536870912U);
  EXPECT_EQ(*parse_size("512 MiB"), 536870912U);
  EXPECT_EQ(*parse_size("512MB"), 512000000U);
  EXPECT_EQ(*parse_size("0.5GiB"), 536870912U);
  EXPECT_EQ(*parse_size("4096B"), 4096U);
  EXPECT_EQ(*parse_size("16777215TiB"), 16777215ULL << 40U);
  EXPECT_EQ(*parse_size("18446744073709551615"), UINT64_MAX);
}

TEST(Size, R14_what_is_no_size) {
  for (const char* text :
       {"", "lots", "MiB", "-1", "+1", "1e9", "0x10", "1.5", "0.3KiB", "1..5GiB", "512mib", "512 M",
        "512  MiB", "18446744073709551616", "16777216TiB", "99999999999.5TiB", ".", "1,5GiB"}) {
    auto size = parse_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(size.error().message(), HasSubstr("512MiB")) << text;
  }
}

std::optional<Value> read(ValueType type, const std::string& yaml, std::string* errors = nullptr) {
  Diagnostics diagnostics;
  auto node = read_yaml_value(yaml, {}, "key", diagnostics);
  KeySpec spec = row("key", type, "").one_of("one|two").between(-5, 5);
  static Node kept;  // the value refers to it
  kept = *node;
  auto value = read_value(spec, kept, "key", diagnostics);
  if (errors != nullptr) {
    errors->clear();
    for (const Diagnostic& one : diagnostics.sorted()) *errors += one.message;
  }
  return value;
}

TEST(Values, R14_booleans_are_true_and_false_only) {
  EXPECT_TRUE(read(ValueType::boolean, "true")->boolean);
  EXPECT_FALSE(read(ValueType::boolean, "false")->boolean);
  for (const char* word :
       {"yes", "no", "on", "off", "True", "FALSE", "1", "0", "\"true\"", "null", "[]", "{}", ""}) {
    EXPECT_FALSE(read(ValueType::boolean, word)) << word;
  }
  std::string errors;
  read(ValueType::boolean, "no", &errors);
  EXPECT_EQ(errors, "expected true or false, found `no`: write false");
}

TEST(Values, R14_integers_are_decimal) {
  EXPECT_EQ(read(ValueType::integer, "-5")->integer, -5);
  EXPECT_EQ(read(ValueType::integer, "0")->integer, 0);
  for (const char* word :
       {"0x5", "05", "+5", "5.0", "5e0", "1_0", "\"5\"", "five", "6", "-6", "~", "99999999999999999999"}) {
    EXPECT_FALSE(read(ValueType::integer, word)) << word;
  }
}

TEST(Values, R14_words_that_readers_disagree_about_need_quotes) {
  EXPECT_EQ(read(ValueType::text, "\"no\"")->text, "no");
  EXPECT_EQ(read(ValueType::text, "nothing")->text, "nothing");
  EXPECT_EQ(read(ValueType::token, "0")->text, "0");
  EXPECT_EQ(read(ValueType::token, "0,1")->text, "0,1");
  for (const char* word : {"no", "yes", "true", "Off", "12", "1.5", "0x10", "null", "[a]"}) {
    EXPECT_FALSE(read(ValueType::text, word)) << word;
  }
  EXPECT_FALSE(read(ValueType::token, "no"));
}

TEST(Values, R14_choices_ignore_case_and_name_the_nearest) {
  EXPECT_EQ(read(ValueType::choice, "TWO")->text, "two");
  std::string errors;
  EXPECT_FALSE(read(ValueType::choice, "towo", &errors));
  EXPECT_EQ(errors, "expected one of one, two, found `towo`; did you mean two?");
}

TEST(Environment, references_defaults_and_dollars) {
  setenv("STAGEWIRE_TEST_PORT", "50060", 1);
  setenv("STAGEWIRE_TEST_EMPTY", "", 1);
  unsetenv("STAGEWIRE_TEST_UNSET");
  EXPECT_EQ(expand_environment("$STAGEWIRE_TEST_PORT")->text, "50060");
  EXPECT_EQ(expand_environment("a${STAGEWIRE_TEST_PORT}b")->text, "a50060b");
  EXPECT_EQ(expand_environment("${STAGEWIRE_TEST_UNSET:-x:-y}")->text, "x:-y");
  EXPECT_EQ(expand_environment("${STAGEWIRE_TEST_EMPTY:-x}")->text, "x");
  EXPECT_EQ(expand_environment("${STAGEWIRE_TEST_EMPTY}")->text, "");
  EXPECT_EQ(expand_environment("$$HOME $ $1 a$")->text, "$HOME $ $1 a$");
  EXPECT_FALSE(expand_environment("$$HOME")->changed);
  EXPECT_EQ(expand_environment("$STAGEWIRE_TEST_UNSET").error().code(), ErrorCode::not_found);
  for (const char* wrong : {"${", "${}", "${1}", "${A-b}", "${A", "${A:b}"}) {
    EXPECT_EQ(expand_environment(wrong).error().code(), ErrorCode::invalid_argument) << wrong;
  }
}

TEST(Environment, R14_values_from_it_are_typed_and_errors_name_their_place) {
  setenv("STAGEWIRE_TEST_PORT", "50060", 1);
  unsetenv("STAGEWIRE_TEST_UNSET");
  auto plain = parse(speech_yaml("zmq_port: $STAGEWIRE_TEST_PORT"));
  ASSERT_TRUE(plain.plan) << all_text(plain);
  EXPECT_EQ(plain.plan->stages[1].connector->zmq_port, 50061);
  auto quoted = parse(speech_yaml("zmq_port: \"${STAGEWIRE_TEST_PORT}\""));
  ASSERT_TRUE(quoted.plan) << all_text(quoted);
  EXPECT_EQ(quoted.plan->stages[0].connector->zmq_port, 50060);
  EXPECT_EQ(error_text(parse(speech_yaml("zmq_port: $STAGEWIRE_TEST_UNSET"))),
            "test.yaml:2:65: error: connectors.speech.extra.zmq_port: the environment variable "
            "STAGEWIRE_TEST_UNSET "
            "is not set: set it, or write ${STAGEWIRE_TEST_UNSET:-a default}\n");
  EXPECT_THAT(error_text(parse(speech_yaml("wait: $STAGEWIRE_TEST_PORT"))),
              HasSubstr("found `50060` (from the environment)"));
}

TEST(Nearest, distances_and_suggestions) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("port", "prot"), 1U);
  EXPECT_EQ(edit_distance("host", "hots"), 1U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(suggestion("zmq_prot", {"host", "zmq_port"}), "; did you mean zmq_port?");
  EXPECT_EQ(suggestion("completely_different", {"host", "role"}), "; known: host, role");
}

TEST(Schema, defaults_are_those_of_the_connector) {
  Diagnostics diagnostics;
  auto node = read_yaml("name: MoriTransferEngineConnector\n", "x", diagnostics);
  auto spec = read_connector(*node, "x", "x", diagnostics);
  EXPECT_FALSE(diagnostics.has_errors());
  const ConnectorConfig made = spec->config;
  const ConnectorConfig expected;
  EXPECT_EQ(made.host, expected.host);
  EXPECT_EQ(made.zmq_port, expected.zmq_port);
  EXPECT_EQ(made.backend_type, expected.backend_type);
  EXPECT_EQ(made.backend_settings, expected.backend_settings);
  EXPECT_EQ(made.memory_pool_size, expected.memory_pool_size);
  EXPECT_EQ(made.memory_pool_device, expected.memory_pool_device);
  EXPECT_EQ(made.sender_host, expected.sender_host);
  EXPECT_EQ(made.sender_zmq_port, expected.sender_zmq_port);
  EXPECT_EQ(made.buffer_ttl_s, expected.buffer_ttl_s);
  EXPECT_EQ(made.original_timeout_s, expected.original_timeout_s);
  EXPECT_EQ(made.lease_share, expected.lease_share);
  EXPECT_EQ(made.route, expected.route);
  EXPECT_EQ(made.wait, expected.wait);
  EXPECT_EQ(made.fault_spec, expected.fault_spec);
}

TEST(Schema, names_are_unique_in_each_table_and_defaults_have_their_type) {
  for (KeySpecs keys : {top_level_keys(), stage_keys(), runtime_keys(), edge_keys(), connector_keys(),
                        extra_keys(), duplex_session_keys()}) {
    Diagnostics diagnostics;
    read_map(map_node({}), keys, "", diagnostics);  // a default of another type would abort
    EXPECT_FALSE(diagnostics.has_errors());
    for (const KeySpec& one : keys) {
      EXPECT_EQ(find_key(keys, one.name), &one) << one.name;
      EXPECT_FALSE(one.meaning.empty()) << one.name;
    }
  }
}

}  // namespace
}  // namespace stagewire::deploy
