// What the original's structures look like from the real msgspec.
#include "support/vectors.hpp"

#include <gtest/gtest.h>

#include "wire/messages.hpp"

namespace stagewire::wire {
namespace {

using namespace stagewire::testing;

const std::string kKey = "chatcmpl-1_0_0@0_1";

std::map<std::string, OriginalQueryResponse> responses() {
  std::map<std::string, OriginalQueryResponse> all;
  for (const std::uint64_t size :
       {std::uint64_t{1}, std::uint64_t{127}, std::uint64_t{128}, std::uint64_t{65535}, std::uint64_t{65536},
        std::uint64_t{860160}, std::uint64_t{4294967295}, std::uint64_t{4294967296},
        std::uint64_t{1099511627776}}) {
    all["reply_" + std::to_string(size)] = {kKey, size, false};
  }
  all["reply_fast"] = {kKey, 4096, true};
  return all;
}

TEST(OriginalVectors, responses_both_ways) {
  for (const auto& [name, response] : responses()) {
    const auto& bytes = vectors().at(name);
    EXPECT_EQ(to_hex(encode(response)), to_hex(bytes)) << name;
    const auto read = decode_original_response(bytes);
    ASSERT_TRUE(read.ok()) << name << ": " << read.error().to_string();
    EXPECT_TRUE(*read == response) << name;
  }
}

TEST(OriginalVectors, requests_both_ways) {
  const auto& query = vectors().at("query");
  EXPECT_EQ(to_hex(encode(OriginalQuery{kKey})), to_hex(query));
  EXPECT_TRUE(decode_original_request(query).value() == OriginalRequest(OriginalQuery{kKey}));

  const std::map<std::string, OriginalPull> pulls{
      {"pull", {kKey, from_hex("0102"), from_hex("03"), 4096, 860160}},
      {"pull_long",
       {std::string(300, 'k'), std::vector<std::byte>(300, std::byte{0xab}),
        std::vector<std::byte>(70000, std::byte{0xab}), std::uint64_t{1} << 33,
        (std::uint64_t{1} << 32) + 1}}};
  for (const auto& [name, pull] : pulls) {
    const auto& bytes = vectors().at(name);
    EXPECT_TRUE(encode(pull) == bytes) << name;
    EXPECT_TRUE(decode_original_request(bytes).value() == OriginalRequest(pull)) << name;
  }
}

TEST(OriginalVectors, constants) {
  std::string joined;
  for (const std::string_view constant : {kTransferDone, kTransferError, kQueryPrefix, kInfoNotFound}) {
    joined += (joined.empty() ? "" : "|") + std::string(constant);
  }
  EXPECT_EQ(to_hex(std::as_bytes(std::span(joined))), to_hex(vectors().at("constants")));
}

}  // namespace
}  // namespace stagewire::wire
