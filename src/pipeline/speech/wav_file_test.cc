// WavReader and WavWriter on real files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/unique_fd.hpp"
#include "pipeline/speech/wav_reader.hpp"
#include "pipeline/speech/wav_writer.hpp"
#include "support/temp_dir.hpp"
#include "support/wav_bytes.hpp"

namespace stagewire::pipeline::speech {
namespace {

using ::testing::HasSubstr;

TEST(WavFile, what_is_written_is_read_back) {
  const test::TempDir dir;
  const std::string path = dir.file("a.wav");
  const base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  auto writer = WavWriter::begin(file.get(), {48'000, 2});
  ASSERT_TRUE(writer.ok()) << writer.error().to_string();
  ASSERT_TRUE(writer->append(std::vector<std::int16_t>{-32768, 16384, 0, 1}).ok());
  ASSERT_TRUE(writer->append(std::vector<std::int16_t>{32767, -1}).ok());
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(writer->samples_written(), 3U);
  EXPECT_EQ(test::read_file(path), test::wav_file({.channels = 2, .sample_rate = 48'000},
                                                  test::pcm16_bytes({-32768, 16384, 0, 1, 32767, -1})));

  auto reader = WavReader::open(path);
  ASSERT_TRUE(reader.ok()) << reader.error().to_string();
  EXPECT_EQ(reader->format().audio, (AudioFormat{48'000, 2}));
  std::vector<float> values(5);  // room for two samples and a half
  auto count = reader->read(values);
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(*count, 2U);
  EXPECT_THAT(values, ::testing::ElementsAre(-1.0F, 0.5F, 0.0F, 1.0F / 32768, 0.0F));
  EXPECT_EQ(*reader->read(values), 1U);
  EXPECT_EQ(*reader->read(values), 0U);
}

TEST(WavFile, an_unfinished_file_does_not_look_whole) {
  const test::TempDir dir;
  const std::string path = dir.file("a.wav");
  const base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  auto writer = WavWriter::begin(file.get(), {16'000, 1});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->append(std::vector<std::int16_t>{1, 2, 3}).ok());
  const auto reader = WavReader::open(path);
  ASSERT_FALSE(reader.ok());
  EXPECT_THAT(reader.error().message(), HasSubstr("has no audio"));
}

TEST(WavFile, a_write_that_fails_says_where) {
  const base::UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const auto writer = WavWriter::begin(full.get(), {16'000, 1});
  ASSERT_FALSE(writer.ok());
  EXPECT_THAT(writer.error().message(), HasSubstr("writing the output at byte 0"));
}

TEST(WavFile, errors_of_opening_name_the_path) {
  const test::TempDir dir;
  const auto missing = WavReader::open(dir.file("none.wav"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::not_found);
  EXPECT_THAT(missing.error().message(), HasSubstr(dir.file("none.wav")));

  const auto directory = WavReader::open(dir.path().string());
  ASSERT_FALSE(directory.ok());
  EXPECT_THAT(directory.error().message(), HasSubstr("not a regular file"));

  ASSERT_EQ(::mkfifo(dir.file("pipe").c_str(), 0600), 0);
  const auto pipe = WavReader::open(dir.file("pipe"));
  ASSERT_FALSE(pipe.ok());
  EXPECT_THAT(pipe.error().message(), HasSubstr("not a regular file"));

  test::write_file(dir.file("bad.wav"), "no audio here, only words");
  const auto bad = WavReader::open(dir.file("bad.wav"));
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message(), HasSubstr(dir.file("bad.wav") + ": not a WAV file"));
}

TEST(WavFile, a_file_that_shrinks_while_it_is_read_is_an_error) {
  const test::TempDir dir;
  const std::string path = dir.file("a.wav");
  test::write_file(path, test::wav_file({}, std::string(100, 'x')));
  auto reader = WavReader::open(path);
  ASSERT_TRUE(reader.ok());
  std::filesystem::resize_file(path, 60);
  std::vector<float> values(50);
  const auto count = reader->read(values);
  ASSERT_FALSE(count.ok());
  EXPECT_THAT(count.error().message(), HasSubstr("became shorter while it was read"));
}

}  // namespace
}  // namespace stagewire::pipeline::speech
