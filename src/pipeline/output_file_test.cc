#include "pipeline/output_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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

INSTANTIATE_TEST_SUITE_P(Both, OutputFileTest, ::testing::Values(Naming::unnamed, Naming::named),
                         [](const auto& test) { return test.param == Naming::named ? "named" : "unnamed"; });

}  // namespace
}  // namespace stagewire::pipeline
