// The byte examples of tests/vectors/vectors.json, by name.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/hex.hpp"

namespace stagewire::testing {

using Vectors = std::map<std::string, std::vector<std::byte>>;

inline const Vectors& vectors() {
  static const Vectors all = [] {
    std::ifstream file(STAGEWIRE_SOURCE_DIR "/tests/vectors/vectors.json");
    EXPECT_TRUE(file.is_open());
    Vectors read;
    const auto document = nlohmann::json::parse(file);
    for (const auto& entry : document.at("vectors")) {
      read[entry.at("name").get<std::string>()] = from_hex(entry.at("hex").get<std::string>());
    }
    return read;
  }();
  return all;
}

}  // namespace stagewire::testing
