#include "stagewire/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "doctor/checks.hpp"

namespace stagewire::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Finding& named(const std::vector<Finding>& findings, std::string_view name) {
  for (const Finding& finding : findings) {
    if (finding.name == name) return finding;
  }
  ADD_FAILURE() << "no finding is named " << name;
  return findings.front();
}

/// A scratch file system root with files in proc/ and sys/.
class Doctor : public ::testing::Test {
 protected:
  void SetUp() override { root_ = ::testing::TempDir() + "/stagewire_doctor_" + std::to_string(getpid()); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text;
  }
  std::string root_;
};

TEST_F(Doctor, R24_few_descriptors_come_with_the_command_that_raises_them) {
  const auto findings = check_limits({256, std::nullopt}, {std::nullopt, std::nullopt});
  const Finding& files = named(findings, "nofile");
  EXPECT_EQ(files.state, Finding::State::note);
  EXPECT_EQ(files.value, "256 (hard limit unlimited)");
  EXPECT_EQ(files.command, "ulimit -n 65536");
  EXPECT_EQ(named(findings, "memlock").state, Finding::State::good);
}

TEST_F(Doctor, R24_a_hard_limit_below_what_is_needed_takes_the_administrator) {
  const auto findings = check_limits({32, 512}, {8192, 8192});
  EXPECT_EQ(named(findings, "nofile").state, Finding::State::problem);
  EXPECT_THAT(named(findings, "nofile").command, HasSubstr("limits.d"));
  EXPECT_EQ(named(findings, "memlock").state, Finding::State::note);
  EXPECT_EQ(named(findings, "memlock").value, "8 KiB (hard limit 8 KiB)");
  EXPECT_THAT(named(findings, "memlock").command, HasSubstr("memlock unlimited"));
}

TEST_F(Doctor, R24_the_advised_limit_is_one_that_may_be_set) {
  EXPECT_EQ(named(check_limits({256, 4096}, {}), "nofile").command, "ulimit -n 4096");
}

TEST_F(Doctor, R24_small_pages_are_noted_with_the_command_that_mends_it) {
  const auto findings = check_memory(root_, std::string("4 KiB pages"));
  EXPECT_EQ(named(findings, "pool").state, Finding::State::note);
  EXPECT_EQ(named(findings, "pool").command, "sudo sysctl vm.nr_hugepages=512");
}

TEST_F(Doctor, R24_a_machine_that_is_set_up_needs_no_command) {
  write("proc/meminfo", "MemAvailable:    4194304 kB\n");
  const auto findings = check_memory(root_, std::string("2 MiB pages, transparent (8 MiB of 8 MiB)"));
  EXPECT_THAT(named(findings, "available").value, HasSubstr("4 GiB"));
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.state, Finding::State::good) << finding.name;
    EXPECT_THAT(finding.command, IsEmpty()) << finding.name;
  }
}

TEST_F(Doctor, R24_too_little_memory_for_a_pool_is_noted) {
  write("proc/meminfo", "MemAvailable:    262144 kB\n");
  const auto findings = check_memory(root_, std::string("4 KiB pages"));
  EXPECT_EQ(named(findings, "available").state, Finding::State::note);
  EXPECT_THAT(named(findings, "available").command, HasSubstr("memory_pool_size=256MiB"));
}

TEST_F(Doctor, R24_a_pool_that_cannot_be_had_is_a_problem) {
  const auto findings = check_memory(root_, Error(ErrorCode::failed, "memfd_create: not permitted"));
  EXPECT_EQ(named(findings, "pool").state, Finding::State::problem);
  EXPECT_THAT(named(findings, "pool").value, HasSubstr("memfd_create: not permitted"));
}

TEST_F(Doctor, R10_the_address_that_auto_chooses_is_shown_with_the_reason) {
  const auto findings = check_addresses({{.interface = "lo", .address = "127.0.0.1", .loopback = true},
                                         {.interface = "eth0", .address = "10.0.0.2"}},
                                        "eth0");
  EXPECT_EQ(named(findings, "other_hosts").value, "10.0.0.2");
  EXPECT_THAT(named(findings, "other_hosts").advice, HasSubstr("eth0"));
}

TEST_F(Doctor, R10_a_machine_without_a_network_still_does_for_one_host) {
  const auto findings = check_addresses({{.interface = "lo", .address = "127.0.0.1", .loopback = true}}, "");
  EXPECT_EQ(named(findings, "one_host").value, "127.0.0.1");
  EXPECT_EQ(named(findings, "one_host").state, Finding::State::good);
  EXPECT_EQ(named(findings, "other_hosts").state, Finding::State::note);
}

TEST_F(Doctor, R10_without_any_address_no_pipeline_runs) {
  const auto findings =
      check_addresses({{.interface = "lo", .address = "127.0.0.1", .up = false, .loopback = true}}, "");
  EXPECT_EQ(named(findings, "one_host").state, Finding::State::problem);
  EXPECT_THAT(named(findings, "one_host").value, HasSubstr("127.0.0.1 (lo, down)"));
  EXPECT_THAT(named(findings, "one_host").command, HasSubstr("ip link set lo up"));
}

TEST_F(Doctor, R24_a_backend_that_cannot_be_used_is_listed_with_the_reason) {
  const auto findings =
      check_backends({{"shm", true, "memfd over a Unix socket"}, {"rdma", false, "no device"}});
  EXPECT_EQ(named(findings, "shm").state, Finding::State::good);
  EXPECT_EQ(named(findings, "rdma").state, Finding::State::note);
  EXPECT_EQ(named(findings, "rdma").value, "no device");
}

TEST_F(Doctor, R24_without_shared_memory_no_pipeline_runs_on_one_host) {
  EXPECT_EQ(named(check_backends({{"shm", false, "socket(): refused"}}), "shm").state,
            Finding::State::problem);
  EXPECT_EQ(named(check_backends({{"local", true, ""}}), "shm").state, Finding::State::problem);
  EXPECT_EQ(named(check_backends({{"local", true, ""}}), "local").value, "usable");
}

TEST_F(Doctor, R24_a_missing_library_is_named_with_the_package_that_has_it) {
  const auto findings = check_libraries([](const char*) { return std::nullopt; });
  EXPECT_THAT(named(findings, "libibverbs").command, HasSubstr("libibverbs1"));
  EXPECT_THAT(named(findings, "libucp").command, HasSubstr("libucx0"));
  EXPECT_THAT(named(findings, "libamdhip64").command, HasSubstr("libamdhip64-5"));
  EXPECT_THAT(named(findings, "libcuda").command, HasSubstr("libcuda1"));
}

TEST_F(Doctor, R24_an_older_soname_will_do) {
  const auto findings = check_libraries([](const char* soname) -> std::optional<std::string> {
    if (std::string_view(soname) == "libamdhip64.so.5") return "/opt/rocm/lib/libamdhip64.so.5";
    return std::nullopt;
  });
  EXPECT_EQ(named(findings, "libamdhip64").value, "/opt/rocm/lib/libamdhip64.so.5");
  EXPECT_THAT(named(findings, "libamdhip64").command, IsEmpty());
}

TEST_F(Doctor, processors_are_counted) {
  write("proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Fast 9000\nflags\t\t: fpu sse2 avx2\n\nprocessor\t: 1\n");
  const auto findings = check_cpu(root_);
  EXPECT_EQ(named(findings, "processor").value, "2 x Fast 9000");
  EXPECT_EQ(named(findings, "flags").value, "sse2 avx2");
}

TEST_F(Doctor, R24_this_machine_can_run_pipelines_without_gpu_and_network_card) {
  const MachineReport report = machine_report();
  for (const Finding& finding : report.findings) {
    EXPECT_NE(finding.state, Finding::State::problem) << finding.name << ": " << finding.value;
    EXPECT_FALSE(finding.topic.empty());
    EXPECT_FALSE(finding.value.empty()) << finding.name;
  }
  EXPECT_TRUE(report.one_host);
}

}  // namespace
}  // namespace stagewire::doctor
