#include "deploy/host_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagewire::deploy {
namespace {

using testing::HasSubstr;

TEST(HostText, addresses_and_names_may_be_right) {
  for (const char* good : {"127.0.0.1", "10.0.0.2", "::1", "[::1]", "2001:db8::2", "fe80::1%1", "fe80::1%lo",
                           "auto", "localhost", "node-3.example.org", "gpu_7"}) {
    EXPECT_EQ(host_problem(good), "") << good;
  }
}

TEST(HostText, R14_what_no_stage_can_bind_or_no_peer_call_is_said) {
  for (const auto& [wrong, why] : {std::pair("", "no address"),
                                   std::pair("a b", "no address"),
                                   std::pair("*", "every interface"),
                                   std::pair("0.0.0.0", "every interface"),
                                   std::pair("::", "every interface"),
                                   std::pair("[::]", "every interface"),
                                   std::pair("255.255.255.255", "broadcast"),
                                   std::pair("224.0.0.1", "multicast"),
                                   std::pair("ff02::1", "multicast"),
                                   std::pair("250.0.0.1", "no machine has"),
                                   std::pair("0.0.0.7", "no machine has"),
                                   std::pair("0", "in the form"),
                                   std::pair("10.1", "in the form"),
                                   std::pair("0x7f000001", "in the form"),
                                   std::pair("fe80::1", "needs its interface"),
                                   std::pair("fe80::1%nope", "interface nope"),
                                   std::pair("fe80::1%", "names no interface"),
                                   std::pair("10.0.0.2:5", "has a port in it"),
                                   std::pair("1::2::3", "no name of a host"),
                                   std::pair("a\x1b[b", "no name of a host")}) {
    EXPECT_THAT(host_problem(wrong), HasSubstr(why)) << wrong;
  }
}

}  // namespace
}  // namespace stagewire::deploy
