#include "pipeline/output_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <filesystem>

#include "support/temp_dir.hpp"
#include "support/wav_bytes.hpp"

namespace stagewire::pipeline {
namespace {

using ::testing::HasSubstr;

enum class Naming { unnamed, named };

class OutputFileTest : public ::testing::TestWithParam<Naming> {
 protected:
  static Result<OutputFile> create(const std::string& path) {
    return GetParam() == Naming::named ? OutputFile::create_named(path) : OutputFile::create(path);
  }
  test::TempDir dir_;
};

TEST_P(OutputFileTest, appears_when_it_is_whole) {
  auto output = create(dir_.file("out"));
  ASSERT_TRUE(output.ok()) << output.error().to_string();
  ASSERT_TRUE(output->write("bytes").ok());
  EXPECT_FALSE(std::filesystem::exists(dir_.file("out")));
  ASSERT_TRUE(output->present().ok());
  EXPECT_EQ(test::read_file(dir_.file("out")), "bytes");
  EXPECT_EQ(dir_.entry_count(), 1U);
}

TEST_P(OutputFileTest, replaces_what_was_there_in_one_step_or_not_at_all) {
  test::write_file(dir_.file("out"), "before");
  {
    auto given_up = create(dir_.file("out"));
    ASSERT_TRUE(given_up.ok());
    ASSERT_TRUE(given_up->write("half").ok());
  }
  EXPECT_EQ(test::read_file(dir_.file("out")), "before");
  EXPECT_EQ(dir_.entry_count(), 1U);
  auto output = create(dir_.file("out"));
  ASSERT_TRUE(output.ok());
  ASSERT_TRUE(output->write("after").ok());
  ASSERT_TRUE(output->present().ok());
  EXPECT_EQ(test::read_file(dir_.file("out")), "after");
  EXPECT_EQ(dir_.entry_count(), 1U);
}

TEST_P(OutputFileTest, has_the_permissions_of_any_new_file) {
  const mode_t mask = ::umask(0027);
  auto output = create(dir_.file("out"));
  ::umask(mask);
  ASSERT_TRUE(output.ok());
  ASSERT_TRUE(output->present().ok());
  struct stat info {};
  ASSERT_EQ(::stat(dir_.file("out").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
}

TEST_P(OutputFileTest, says_why_it_cannot_be_written) {
  const auto missing = create(dir_.file("none/out"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::not_found);
  EXPECT_THAT(missing.error().message(), HasSubstr(dir_.file("none")));

  const auto directory = create(dir_.path().string());
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.error().code(), ErrorCode::invalid_argument);

  const auto nothing = create("");
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().code(), ErrorCode::invalid_argument);

  const auto device = create("/dev/null");
  ASSERT_FALSE(device.ok());
  EXPECT_THAT(device.error().message(), HasSubstr("no regular file"));

  EXPECT_FALSE(create("/proc/out").ok()) << "no file system for files";
}

TEST_P(OutputFileTest, a_link_stays_and_what_it_leads_to_is_written) {
  std::filesystem::create_directory(dir_.file("far"));
  test::write_file(dir_.file("far/there"), "before");
  std::filesystem::create_symlink("far/there", dir_.file("to_file"));
  std::filesystem::create_symlink(dir_.file("to_file"), dir_.file("to_link"));
  std::filesystem::create_symlink("far/absent", dir_.file("to_nothing"));
  for (const auto& [link, target] :
       {std::pair("to_link", "far/there"), std::pair("to_nothing", "far/absent")}) {
    SCOPED_TRACE(link);
    auto output = create(dir_.file(link));
    ASSERT_TRUE(output.ok()) << output.error().to_string();
    ASSERT_TRUE(output->write("after").ok());
    ASSERT_TRUE(output->present().ok());
    EXPECT_TRUE(std::filesystem::is_symlink(dir_.file(link)));
    EXPECT_FALSE(std::filesystem::is_symlink(dir_.file(target)));
    EXPECT_EQ(test::read_file(dir_.file(target)), "after");
  }
}

TEST_P(OutputFileTest, a_link_to_no_file_is_refused) {
  ASSERT_EQ(::mkfifo(dir_.file("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", dir_.file("to_pipe"));
  std::filesystem::create_symlink("/dev/null", dir_.file("to_device"));
  std::filesystem::create_symlink("round", dir_.file("about"));
  std::filesystem::create_symlink("about", dir_.file("round"));
  test::write_file(dir_.file("open"), "");
  const base::UniqueFd open(::open(dir_.file("open").c_str(), O_RDWR | O_CLOEXEC));
  std::filesystem::remove(dir_.file("open"));
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(open.get()), dir_.file("to_nameless"));
  for (const auto& [link, why] :
       {std::pair("to_pipe", "no regular file"), std::pair("to_device", "no regular file"),
        std::pair("round", "in a circle"), std::pair("to_nameless", "no name any more")}) {
    SCOPED_TRACE(link);
    const auto output = create(dir_.file(link));
    ASSERT_FALSE(output.ok());
    EXPECT_EQ(output.error().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(output.error().message(), HasSubstr(why));
    EXPECT_TRUE(std::filesystem::is_symlink(dir_.file(link)));
  }
}

TEST_P(OutputFileTest, the_longest_name_there_is_fits_and_a_longer_one_is_refused) {
  const std::string longest = dir_.file(std::string(NAME_MAX, 'n'));
  auto output = create(longest);
  ASSERT_TRUE(output.ok()) << output.error().to_string();
  ASSERT_TRUE(output->present().ok());
  EXPECT_TRUE(std::filesystem::exists(longest));
  const auto longer = create(longest + "n");
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().code(), ErrorCode::invalid_argument);
}

TEST_P(OutputFileTest, a_file_that_only_its_owner_may_replace_is_refused_at_once) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes two users, and only root can be both";
  test::write_file(dir_.file("out"), "before");
  std::filesystem::permissions(dir_.file("out"), std::filesystem::perms(0666));
  std::filesystem::permissions(dir_.path(), std::filesystem::perms(01777));
  constexpr uid_t kSomebody = 65'534;
  ASSERT_EQ(::seteuid(kSomebody), 0);
  const auto theirs = create(dir_.file("out"));
  const auto ours = create(dir_.file("other"));
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_FALSE(theirs.ok());
  EXPECT_EQ(theirs.error().code(), ErrorCode::permission);
  EXPECT_THAT(theirs.error().message(), HasSubstr("sticky bit"));
  EXPECT_TRUE(ours.ok()) << ours.error().to_string();
}

TEST_P(OutputFileTest, is_known_by_every_name_of_its_file) {
  test::write_file(dir_.file("a"), "");
  std::filesystem::create_hard_link(dir_.file("a"), dir_.file("b"));
  std::filesystem::create_symlink("c", dir_.file("to_c"));
  const auto a = create(dir_.file("a"));
  const auto c = create(dir_.file("c"));
  const auto to_c = create(dir_.file("to_c"));
  ASSERT_TRUE(a.ok() && c.ok() && to_c.ok());
  EXPECT_TRUE(a->would_replace(dir_.file("a")));
  EXPECT_TRUE(a->would_replace(dir_.file("b")));
  EXPECT_FALSE(a->would_replace(dir_.file("c")));
  EXPECT_FALSE(c->would_replace(dir_.file("c"))) << "there is none yet";
  EXPECT_TRUE(c->is_same_place(*to_c));
  EXPECT_FALSE(a->is_same_place(*c));
}

INSTANTIATE_TEST_SUITE_P(Both, OutputFileTest, ::testing::Values(Naming::unnamed, Naming::named),
                         [](const auto& test) { return test.param == Naming::named ? "named" : "unnamed"; });

}  // namespace
}  // namespace stagewire::pipeline
