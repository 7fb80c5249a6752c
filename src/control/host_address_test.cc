#include "control/host_address.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace stagewire::control {
namespace {

using testing::HasSubstr;

const InterfaceAddress kLoopback{.interface = "lo", .address = "127.0.0.1", .loopback = true};
const InterfaceAddress kLoopback6{.interface = "lo", .address = "::1", .loopback = true};
const InterfaceAddress kDebianName{.interface = "lo", .address = "127.0.1.1", .loopback = true};
const InterfaceAddress kDocker{.interface = "docker0", .address = "172.17.0.1"};
const InterfaceAddress kBridge{.interface = "br-0c4d1f", .address = "172.18.0.1"};
const InterfaceAddress kEth0{.interface = "eth0", .address = "10.0.0.2"};
const InterfaceAddress kEth0v6{.interface = "eth0", .address = "fd00::2"};
const InterfaceAddress kEth1{.interface = "eth1", .address = "192.168.7.2"};
const InterfaceAddress kEth1Down{.interface = "eth1", .address = "192.168.7.2", .up = false};
const InterfaceAddress kSelfAssigned{.interface = "eth0", .address = "169.254.3.4", .link_local = true};
const InterfaceAddress kLinkLocal6{.interface = "eth0", .address = "fe80::1%eth0", .link_local = true};

struct Machine {
  const char* name;
  std::vector<InterfaceAddress> addresses;
  const char* default_interface;
  bool loopback_is_enough;
  const char* expected;  // empty: nothing to be had
};

class R10Machine : public testing::TestWithParam<Machine> {};

TEST_P(R10Machine, auto_chooses) {
  const Machine& machine = GetParam();
  const Result<AddressChoice> choice =
      choose_address(machine.addresses, machine.default_interface, machine.loopback_is_enough);
  if (std::string(machine.expected).empty()) {
    ASSERT_FALSE(choice.ok()) << choice->address;
    EXPECT_EQ(choice.error().code(), ErrorCode::not_found);
    for (const InterfaceAddress& seen : machine.addresses) {
      EXPECT_THAT(choice.error().message(), HasSubstr(seen.address));
    }
    return;
  }
  ASSERT_TRUE(choice.ok()) << choice.error().to_string();
  EXPECT_EQ(choice->address, machine.expected);
  for (const InterfaceAddress& seen : machine.addresses) EXPECT_THAT(choice->reason, HasSubstr(seen.address));
}

INSTANTIATE_TEST_SUITE_P(
    Tables, R10Machine,
    testing::Values(
        Machine{"plain", {kLoopback, kEth0}, "eth0", false, "10.0.0.2"},
        Machine{"multi_homed_by_default_route", {kLoopback, kEth0, kEth1}, "eth1", false, "192.168.7.2"},
        Machine{"multi_homed_without_default_route", {kLoopback, kEth0, kEth1}, "", false, "10.0.0.2"},
        Machine{"default_route_on_an_interface_that_is_down", {kEth1Down, kEth0}, "eth1", false, "10.0.0.2"},
        Machine{"docker_bridges_first", {kLoopback, kDocker, kBridge, kEth0}, "", false, "10.0.0.2"},
        Machine{"only_docker_bridges", {kLoopback, kDocker, kBridge}, "", false, ""},
        Machine{"only_docker_bridges_one_host", {kLoopback, kDocker}, "", true, "127.0.0.1"},
        Machine{"bridge_with_the_default_route", {kLoopback, kBridge}, "br-0c4d1f", false, "172.18.0.1"},
        Machine{"only_loopback", {kLoopback}, "", false, ""},
        Machine{"only_loopback_one_host", {kLoopback}, "", true, "127.0.0.1"},
        Machine{"only_loopback_6_one_host", {kLoopback6}, "", true, "::1"},
        Machine{"debian_own_name_first", {kDebianName, kLoopback}, "", true, "127.0.0.1"},
        Machine{"debian_own_name_alone", {kDebianName}, "", true, ""},
        Machine{"ipv4_before_ipv6", {kEth0v6, kEth0}, "eth0", false, "10.0.0.2"},
        Machine{
            "ipv6_on_the_default_route_before_ipv4_elsewhere", {kEth0v6, kEth1}, "eth0", false, "fd00::2"},
        Machine{"only_ipv6", {kLoopback, kLinkLocal6, kEth0v6}, "eth0", false, "fd00::2"},
        Machine{"only_link_local", {kSelfAssigned, kLinkLocal6}, "eth0", false, ""},
        Machine{
            "only_link_local_one_host", {kSelfAssigned, kLinkLocal6, kLoopback}, "eth0", true, "127.0.0.1"},
        Machine{"nothing", {}, "", true, ""}),
    [](const testing::TestParamInfo<Machine>& instance) { return std::string(instance.param.name); });

TEST(HostAddress, R10_this_machine_has_a_loopback_that_is_marked_as_such) {
  bool found = false;
  for (const InterfaceAddress& address : interface_addresses()) {
    EXPECT_TRUE(is_numeric_address(address.address)) << address.address;
    if (address.address == "127.0.0.1") found = address.loopback && address.up && !address.link_local;
    if (address.address.rfind("fe80:", 0) == 0) {
      EXPECT_TRUE(address.link_local);
      EXPECT_THAT(address.address, HasSubstr("%" + address.interface));
    }
  }
  EXPECT_TRUE(found);
}

TEST(HostAddress, R10_endpoints_bracket_ipv6) {
  EXPECT_EQ(*tcp_endpoint("10.0.0.2", 50051), "tcp://10.0.0.2:50051");
  EXPECT_EQ(*tcp_endpoint("fe80::1%eth0", 50051), "tcp://[fe80::1%eth0]:50051");
  EXPECT_EQ(*tcp_endpoint("[::1]", 0), "tcp://[::1]:0");
  EXPECT_EQ(*tcp_endpoint("::1", 65535), "tcp://[::1]:65535");
  for (const char* host : {"", "*", "eth0", "localhost", "10.0.0", "10.0.0.2:80", "[10.0.0.2]", "[::1",
                           "::1]", "[]", "::1%", "1.2.3.4;tcp", "::g", "10.0.0.2 "}) {
    EXPECT_EQ(tcp_endpoint(host, 1).error().code(), ErrorCode::invalid_argument) << host;
  }
  EXPECT_EQ(tcp_endpoint("::1", 65536).error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(tcp_endpoint("::1", -1).error().code(), ErrorCode::invalid_argument);
}

TEST(HostAddress, R10_names_resolve_to_digits) {
  EXPECT_EQ(*resolve_host("10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(*resolve_host("[fe80::1%lo]"), "fe80::1%lo");
  EXPECT_EQ(*resolve_host("localhost"), "127.0.0.1");
  const auto unknown = resolve_host("no_such_host.invalid.");
  EXPECT_EQ(unknown.error().code(), ErrorCode::invalid_argument);
  EXPECT_THAT(unknown.error().message(), HasSubstr("no_such_host.invalid."));
}

/// A directory that stands in for /proc.
class FakeProc : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "stagewire_proc_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    std::filesystem::create_directories(root_ + "/net");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }

  std::string root_;
};

constexpr const char* kRouteHeading = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n";

TEST_F(FakeProc, R10_default_route_of_the_lowest_metric) {
  EXPECT_EQ(default_route_interface(root_), "");
  write("/net/ipv6_route",
        "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
        "00000000000000000000000000000000 "
        "ffffffff 00000001 00000000 00200200       lo\n"
        "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
        "fd000000000000000000000000000001 "
        "00000400 00000002 00000000 00000003     eth6\n");
  EXPECT_EQ(default_route_interface(root_), "eth6");
  write("/net/route", std::string(kRouteHeading) +
                          "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n"
                          "wlan0\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\n"
                          "eth1\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\n"
                          "eth2\t00000000\t010200C0\t0002\t0\t0\t0\t00000000\t0\n"
                          "broken line\n");
  EXPECT_EQ(default_route_interface(root_), "eth1");
}

constexpr const char* kTcpHeading =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt ...\n";

std::string tcp_line(const std::string& local, const char* state, const char* inode) {
  return "   0: " + local + " 00000000:0000 " + state +
         " 00000000:00000000 00:00000000 00000000  1000        0 " + inode +
         " 1 0000000000000000 100 0 0 10 0\n";
}

TEST_F(FakeProc, R12_owner_by_address_and_port) {
  write("/net/tcp", kTcpHeading + tcp_line("0100007F:1F90", "01", "11") +
                        tcp_line("0200000A:1F90", "0A", "12") + tcp_line("0100007F:1F90", "0A", "13"));
  write("/net/tcp6", kTcpHeading + tcp_line("00000000000000000000000000000000:1F91", "0A", "14") +
                         tcp_line("0000000000000000FFFF00000100007F:1F92", "0A", "15") + "nonsense\n");
  for (const char* inode : {"11", "12", "13", "14", "15"}) {
    const std::string process = std::string("/") + inode + inode;
    write(process + "/cmdline", std::string("server\0--number\0", 16) + inode + std::string(1, '\0'));
    std::filesystem::create_directories(root_ + process + "/fd");
    std::filesystem::create_symlink("/dev/null", root_ + process + "/fd/0");
    std::filesystem::create_symlink(std::string("socket:[") + inode + "]", root_ + process + "/fd/3");
  }
  EXPECT_EQ(port_owner("127.0.0.1", 8080, root_), "pid 1313 (server --number 13)");
  EXPECT_EQ(port_owner("10.0.0.2", 8080, root_), "pid 1212 (server --number 12)");
  EXPECT_EQ(port_owner("10.0.0.3", 8080, root_), "");
  EXPECT_EQ(port_owner("127.0.0.1", 8081, root_), "pid 1414 (server --number 14)")
      << "it listens on all addresses";
  EXPECT_EQ(port_owner("127.0.0.1", 8082, root_), "pid 1515 (server --number 15)")
      << "an IPv4 address as IPv6";
  EXPECT_EQ(port_owner("127.0.0.1", 8083, root_), "");

  write("/1313/cmdline", std::string("/proc/self/exe\0serve\0--stage-id\0"
                                     "2\0--pipeline-fd\0"
                                     "3\0",
                                     51));
  write("/1313/status", "Name:\tstagewire\nPid:\t1313\nPPid:\t1300\n");
  EXPECT_EQ(port_owner("127.0.0.1", 8080, root_), "pid 1313 (stage 2 of stagewire serve, pid 1300)");
  write("/1313/cmdline", std::string("a\x1b[2Jb\0c\nd\0", 11));
  EXPECT_EQ(port_owner("127.0.0.1", 8080, root_), "pid 1313 (a\\x1b[2Jb c\\nd)")
      << "on one line, and harmless";

  std::filesystem::remove_all(root_ + "/1313/fd");
  EXPECT_EQ(port_owner("127.0.0.1", 8080, root_), "a process of user 1000") << "somebody else's descriptors";
}

TEST(HostAddress, R12_owner_of_a_socket_of_this_process) {
  const base::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_THAT(port_owner("127.0.0.1", ntohs(address.sin_port)),
              HasSubstr("pid " + std::to_string(getpid()) + " ("));
}

TEST(HostAddress, R16_loopback_is_told_from_what_others_reach) {
  for (const char* own : {"127.0.0.1", "127.0.1.1", "::1"}) EXPECT_TRUE(is_loopback(own)) << own;
  for (const char* open : {"10.0.0.2", "192.168.127.1", "fe80::1%eth0", "::2"})
    EXPECT_FALSE(is_loopback(open)) << open;
}

}  // namespace
}  // namespace stagewire::control
