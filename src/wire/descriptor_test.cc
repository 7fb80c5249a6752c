#include "stagewire/descriptor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hex.hpp"
#include "wire/messages.hpp"

namespace stagewire {
namespace {

using stagewire::testing::from_hex;
using stagewire::testing::to_hex;
using ::testing::HasSubstr;

// What MORI-IO writes.
const std::string kMoriEngine = "a6746172676574 a462303074 a26830 a831302e302e302e32 cd4855 cd1092";
const std::string kMoriMemory =
    "a6746172676574 00 00 ac303030303a63313a30302e30 cf00007f0000000000 ce00100000 02 c440" +
    std::string(128, '0') + "ff 00 c440" + std::string(128, '0') + "ff a0 00 00";

EngineDesc engine() {
  EngineDesc desc;
  desc.key = "target";
  desc.node_id = "b00t";
  desc.hostname = "h0";
  desc.host = "10.0.0.2";
  desc.port = 18517;
  desc.pid = 4242;
  return desc;
}

MemoryDesc memory() {
  MemoryDesc desc;
  desc.engine_key = "target";
  desc.device_id = 0;
  desc.device_bus_id = "0000:c1:00.0";
  desc.data = 0x7f0000000000;
  desc.size = 0x100000;
  desc.kind = MemoryKind::gpu;
  return desc;
}

TEST(Descriptor, reads_what_mori_writes) {
  const auto read_engine = EngineDesc::unpack(from_hex("96" + kMoriEngine));
  ASSERT_TRUE(read_engine.ok()) << read_engine.error().to_string();
  EngineDesc seen = engine();
  seen.addresses = {{"mori", from_hex("96" + kMoriEngine)}};
  EXPECT_EQ(*read_engine, seen);
  EXPECT_EQ(EngineDesc::unpack(seen.pack()).value(), seen) << "it can be handed on";
  const auto read_memory = MemoryDesc::unpack(from_hex("9f" + kMoriMemory));
  ASSERT_TRUE(read_memory.ok()) << read_memory.error().to_string();
  MemoryDesc region = memory();
  region.remote_keys = {{"mori", from_hex("9f" + kMoriMemory)}};
  EXPECT_EQ(*read_memory, region);
  EXPECT_EQ(MemoryDesc::unpack(region.pack()).value(), region);
}

TEST(Descriptor, an_engine_of_moris_without_rdma_has_no_address) {
  EngineDesc desc = engine();
  desc.port = 1;
  EXPECT_TRUE(EngineDesc::unpack(desc.pack()).value().addresses.empty());
}

// MORI's engines look at the first fields only: there they find the port that speaks their protocol.
TEST(Descriptor, moris_engines_are_shown_the_port_that_is_theirs) {
  EngineDesc shown = engine();
  EngineDesc desc = engine();
  desc.host = "10.9.9.9";
  desc.port = 50051;
  desc.instance_id = 7;
  desc.addresses = {{"rdma", from_hex("01")}, {"mori", shown.pack()}};
  const auto bytes = desc.pack();
  EXPECT_EQ(
      to_hex(std::vector(bytes.begin() + 1,
                         bytes.begin() + 1 + static_cast<std::ptrdiff_t>(from_hex(kMoriEngine).size()))),
      to_hex(from_hex(kMoriEngine)));
  EXPECT_EQ(EngineDesc::unpack(bytes).value(), desc);
}

TEST(Descriptor, writes_moris_fields_first_then_ours) {
  EngineDesc desc = engine();
  desc.instance_id = 0x1122334455667788;
  desc.addresses = {{"shm", from_hex("0102")}};
  EXPECT_EQ(to_hex(desc.pack()),
            to_hex(from_hex("98" + kMoriEngine + "cf1122334455667788 91 92 a373686d c4020102")));
  EXPECT_EQ(EngineDesc::unpack(desc.pack()).value(), desc);

  MemoryDesc region = memory();
  region.instance_id = 5;
  region.access = Access::remote_read;
  region.remote_keys = {{"shm", from_hex("aa")}, {"rdma", {}}};
  EXPECT_EQ(to_hex(region.pack()),
            to_hex(from_hex("dc0012" + kMoriMemory + "05 01 92 92a373686dc401aa 92a472646d61c400")));
  EXPECT_EQ(MemoryDesc::unpack(region.pack()).value(), region);
}

TEST(Descriptor, negative_and_large_numbers_survive) {
  MemoryDesc region = memory();
  region.id = UINT32_MAX;
  region.device_id = INT32_MIN;
  region.numa_node = INT32_MAX;
  region.data = 0;
  region.size = UINT64_MAX;
  region.instance_id = 1;
  region.fabric_offset = UINT64_MAX;
  EXPECT_EQ(MemoryDesc::unpack(region.pack()).value(), region);
}

TEST(Descriptor, a_shorter_array_keeps_defaults_and_a_longer_one_is_read) {
  const auto shorter = EngineDesc::unpack(from_hex("91 a6746172676574"));
  ASSERT_TRUE(shorter.ok()) << shorter.error().to_string();
  EngineDesc only_key;
  only_key.key = "target";
  EXPECT_EQ(*shorter, only_key);
  EXPECT_EQ(EngineDesc::unpack(from_hex("90")).value(), EngineDesc());
  const auto longer = EngineDesc::unpack(from_hex("9c" + kMoriEngine + "00 90 a0 00 a178 92c0c0"));
  ASSERT_TRUE(longer.ok()) << longer.error().to_string();
  EXPECT_EQ(longer->key, "target");
}

void expect_corrupt(const Status& status, const std::string& words) {
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::corrupt);
  EXPECT_THAT(status.error().message(), HasSubstr(words));
}

template <typename T>
Status status_of(const Result<T>& result) {
  return result ? Status() : Status(result.error());
}

TEST(Descriptor, R16_wrong_and_hostile_fields_are_corrupt) {
  const auto engine_status = [](const std::string& hex) {
    return status_of(EngineDesc::unpack(from_hex(hex)));
  };
  expect_corrupt(engine_status(""), "cut off");
  expect_corrupt(engine_status("80"), "an array is expected");
  expect_corrupt(engine_status("91 01"), "key is an integer at offset 1 where a string is expected");
  expect_corrupt(engine_status("95 a0 a0 a0 a0 ce00010000"), "port 65536 is out of its range");
  expect_corrupt(engine_status("98" + kMoriEngine + "00 dd ffffffff"), "addresses has size 4294967295");
  expect_corrupt(engine_status("98" + kMoriEngine + "00 91 91 a0"),
                 "addresses has size 1, allowed are 2 to 2");
  const auto memory_status = [](const std::string& hex) {
    return status_of(MemoryDesc::unpack(from_hex(hex)));
  };
  expect_corrupt(memory_status("96 a0 00 00 a0 01 cfffffffffffffffff"), "size goes past the end");
  expect_corrupt(memory_status("97 a0 00 00 a0 00 00 03"), "kind 3 is out of its range");
  expect_corrupt(memory_status("98 a0 00 00 a0 00 00 00 c4020000"),
                 "ipc_handle has size 2, allowed are 64 to 64");
}

TEST(Descriptor, R16_every_cut_is_corrupt) {
  MemoryDesc region = memory();
  region.remote_keys = {{"shm", from_hex("aa")}};
  const auto bytes = region.pack();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(MemoryDesc::unpack(std::span(bytes).first(size)).ok()) << size;
  }
}

TEST(Descriptor, R16_total_size_is_bounded) {
  EngineDesc desc = engine();
  desc.addresses.assign(4, {"ucx", std::vector<std::byte>(8000)});
  expect_corrupt(status_of(EngineDesc::unpack(desc.pack())), "allowed are 24576");
}

}  // namespace
}  // namespace stagewire
