// Runs one fuzz target over its corpus, so that the normal tests and their sanitizers cover it without
// libFuzzer.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

TEST(Corpus, every_input_is_survived) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STAGEWIRE_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> input{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    ASSERT_TRUE(file.good() || file.eof()) << entry.path();
    // An allocation of exactly this size, so that ASan sees a read past its end.
    const std::vector<std::uint8_t> bytes(input.begin(), input.end());
    EXPECT_EQ(LLVMFuzzerTestOneInput(bytes.data(), bytes.size()), 0) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 0U) << STAGEWIRE_CORPUS;
}

}  // namespace
