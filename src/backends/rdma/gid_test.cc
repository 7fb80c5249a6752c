#include "backends/rdma/gid.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <vector>

namespace stagewire::backends::rdma {
namespace {

Gid gid(const char* address) {
  Gid result{};
  if (::inet_pton(AF_INET6, address, result.data()) != 1) std::abort();
  return result;
}

int chosen(std::vector<GidEntry> table) {
  const auto best = choose_gid(table, std::nullopt);
  return best ? best->index : -1;
}

TEST(Gid, R11_routable_before_private_before_link_local) {
  EXPECT_EQ(scope_of(gid("::ffff:8.8.8.8")), GidScope::routable);
  EXPECT_EQ(scope_of(gid("2001:db8::1")), GidScope::routable);
  EXPECT_EQ(scope_of(gid("::ffff:10.1.2.3")), GidScope::private_network);
  EXPECT_EQ(scope_of(gid("::ffff:172.31.0.1")), GidScope::private_network);
  EXPECT_EQ(scope_of(gid("::ffff:172.32.0.1")), GidScope::routable);
  EXPECT_EQ(scope_of(gid("::ffff:192.168.0.1")), GidScope::private_network);
  EXPECT_EQ(scope_of(gid("::ffff:100.64.0.1")), GidScope::private_network);
  EXPECT_EQ(scope_of(gid("fd00::1")), GidScope::private_network);
  EXPECT_EQ(scope_of(gid("::ffff:169.254.3.4")), GidScope::link_local);
  EXPECT_EQ(scope_of(gid("fe80::1")), GidScope::link_local);
  for (const char* nobody : {"::", "::1", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "ff02::1"}) {
    EXPECT_EQ(scope_of(gid(nobody)), GidScope::unusable) << nobody;
  }
  EXPECT_EQ(chosen({{0, gid("fe80::1"), GidKind::roce_v2},
                    {1, gid("::ffff:10.0.0.1"), GidKind::roce_v2},
                    {2, gid("::ffff:8.8.8.8"), GidKind::roce_v1}}),
            2);
}

TEST(Gid, R11_roce_v2_before_v1_then_ipv4_then_the_lowest_index) {
  EXPECT_EQ(chosen({{0, gid("fe80::1"), GidKind::roce_v1},
                    {1, gid("fe80::1"), GidKind::roce_v2},
                    {2, gid("::ffff:10.0.0.1"), GidKind::roce_v1},
                    {3, gid("::ffff:10.0.0.1"), GidKind::roce_v2},
                    {5, gid("::ffff:10.0.0.1"), GidKind::roce_v2}}),
            3);
  EXPECT_EQ(chosen({{0, gid("2001:db8::1"), GidKind::roce_v2}, {1, gid("::ffff:8.8.8.8"), GidKind::roce_v2}}),
            1);
}

TEST(Gid, R11_a_wanted_index_is_taken_or_refused_with_what_there_is) {
  const std::vector<GidEntry> table = {{0, gid("fe80::1"), GidKind::roce_v2},
                                       {1, gid("::ffff:10.0.0.1"), GidKind::roce_v2}};
  EXPECT_EQ(choose_gid(table, 0)->index, 0);
  const auto refused = choose_gid(table, 7);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::invalid_argument);
  EXPECT_NE(refused.error().message().find("GID 1, RoCE v2, 10.0.0.1 (private)"), std::string::npos)
      << refused.error().message();
}

TEST(Gid, R11_a_port_without_a_usable_one_is_refused_with_advice) {
  EXPECT_EQ(choose_gid({}, std::nullopt).error().code(), ErrorCode::unsupported);
  const std::vector<GidEntry> table = {{0, gid("::1"), GidKind::roce_v2}};
  EXPECT_EQ(choose_gid(table, std::nullopt).error().code(), ErrorCode::unsupported);
}

TEST(Gid, infiniband_takes_its_first) {
  EXPECT_EQ(
      chosen({{0, gid("fe80::a00:1"), GidKind::infiniband}, {1, gid("fe80::a00:2"), GidKind::infiniband}}),
      0);
}

}  // namespace
}  // namespace stagewire::backends::rdma
