// A receiver of the original's kind takes payloads from a stagewire connector.
#include <fstream>
#include <sstream>

#include "compat/original_peer.hpp"

namespace stagewire::compat {
namespace {

using namespace testing_support;

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4U];
    text += kDigits[static_cast<unsigned char>(c) & 15U];
  }
  return text;
}

std::string corpus(const std::string& name) {
  std::ifstream file(STAGEWIRE_SOURCE_DIR "/fuzz/corpus/descriptors/" + name, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

struct OriginalReceiverTest : ::testing::Test {
  OriginalReceiverTest()
      : sender(make_connector({})),
        receiver(sender->connection_info().zmq_port, config_of("original-receiver", "shm")) {}

  void put(const std::string& key, std::size_t size, std::uint64_t seed) {
    payload.resize(size);
    fill(payload, seed);
    const auto put = sender->put("0", "1", key, std::span<const std::byte>(payload), {});
    ASSERT_TRUE(put.ok()) << put.error().to_string();
  }
  bool is_published(const std::string& key) {
    return receiver.ask(query_of(key + "@0_1")) == reply_of(key + "@0_1", payload.size(), true);
  }
  void expect_untouched() { EXPECT_TRUE(all_are(receiver.pool->bytes(), std::byte{0x5a})); }

  std::unique_ptr<Connector> sender;
  OriginalReceiver receiver;
  std::vector<std::byte> payload;
};

TEST_F(OriginalReceiverTest, a_query_is_answered_byte_by_byte) {
  put("chatcmpl-1_0_0", 860'160, 1);
  EXPECT_EQ(hex(receiver.ask(query_of("chatcmpl-1_0_0@0_1"))),
            "83aa726571756573745f6964b263686174636d706c2d315f305f3040305f31"
            "a9646174615f73697a65ce000d2000ac69735f666173745f70617468c3");
  EXPECT_TRUE(is_published("chatcmpl-1_0_0")) << "a query changes nothing";
  const Value object(Value::Map{{Value("finished"), Value(true)}});
  const auto put = sender->put("0", "1", "object", object, {});
  ASSERT_TRUE(put.ok());
  EXPECT_EQ(receiver.ask(query_of("object@0_1")), reply_of("object@0_1", put->size, false));
}

TEST_F(OriginalReceiverTest, what_is_not_there_or_cannot_be_read_is_not_found) {
  EXPECT_EQ(receiver.ask(query_of("nothing@0_1")), "info_not_found");
  EXPECT_EQ(receiver.ask("query_info"), "info_not_found");
  EXPECT_EQ(receiver.ask("query_info\xc1\xff garbage"), "info_not_found");
  EXPECT_EQ(receiver.ask("query_info\x81" + packed_text("request_id") + "\x07"), "info_not_found");
}

TEST_F(OriginalReceiverTest, R03_R04_a_pull_writes_the_payload_then_answers_and_touches_nothing_beside) {
  const std::uint64_t free_before = sender->health().pool_free;
  put("k", 300'001, 2);
  EXPECT_EQ(receiver.ask(pull_of(receiver.pull("k@0_1", 12'345, 300'001))), "trans_done");
  const auto pool = receiver.pool->bytes();
  EXPECT_EQ(std::memcmp(pool.data() + 12'345, payload.data(), payload.size()), 0);
  EXPECT_TRUE(all_are(pool.first(12'345), std::byte{0x5a}));
  EXPECT_TRUE(all_are(pool.subspan(12'345 + 300'001), std::byte{0x5a}));
  EXPECT_EQ(receiver.ask(query_of("k@0_1")), "info_not_found") << "it was taken";
  EXPECT_EQ(receiver.ask(pull_of(receiver.pull("k@0_1", 0, 300'001))), "trans_error");
  EXPECT_EQ(sender->health().pool_free, free_before);
}

TEST_F(OriginalReceiverTest, R02_a_pull_that_fails_leaves_the_payload_where_it_is) {
  put("k", 5000, 3);
  const PullFields good = receiver.pull("k@0_1", 0, 5000);
  PullFields bad = good;
  bad.length = 4999;
  EXPECT_EQ(receiver.ask(pull_of(bad)), "trans_error");
  EXPECT_TRUE(is_published("k"));
  for (const std::uint64_t offset :
       {std::uint64_t{1 << 20}, std::uint64_t{(1 << 20) - 4999}, UINT64_MAX, UINT64_MAX - 4999}) {
    bad = good;
    bad.offset = offset;
    EXPECT_EQ(receiver.ask(pull_of(bad)), "trans_error") << offset;
    EXPECT_TRUE(is_published("k"));
  }
  bad = good;
  bad.memory = "\x01\x02";
  EXPECT_EQ(receiver.ask(pull_of(bad)), "trans_error");
  bad = good;
  bad.engine = "";
  EXPECT_EQ(receiver.ask(pull_of(bad)), "trans_error");
  expect_untouched();
  EXPECT_TRUE(is_published("k"));
  EXPECT_EQ(receiver.ask(pull_of(good)), "trans_done");
}

TEST_F(OriginalReceiverTest, R16_a_region_that_grants_no_writing_is_not_written) {
  put("k", 5000, 4);
  const auto readable = EnginePair::memory_of(*receiver.engine, 8192, Access::remote_read);
  PullFields pull = receiver.pull("k@0_1", 0, 5000);
  pull.memory = as_text(readable->desc().pack());
  EXPECT_EQ(receiver.ask(pull_of(pull)), "trans_error");
  MemoryDesc forged = readable->desc();
  forged.access = Access::remote_read_write;
  pull.memory = as_text(forged.pack());
  EXPECT_EQ(receiver.ask(pull_of(pull)), "trans_error");
  EXPECT_TRUE(all_are(readable->bytes(), std::byte{0}));
  EXPECT_TRUE(is_published("k"));
}

TEST_F(OriginalReceiverTest, R16_R17_anything_else_is_an_error_and_the_next_request_is_served) {
  put("k", 100, 5);
  for (const std::string& garbage : {std::string("\x85", 1),
                                     std::string("\x85\xaa"
                                                 "request_id",
                                                 12),
                                     std::string("hello"), std::string(1, '\0'), std::string(100'000, '\x85'),
                                     pull_of(receiver.pull("k@0_1", 0, 100)).substr(0, 40)}) {
    EXPECT_EQ(receiver.ask(garbage), "trans_error") << hex(garbage.substr(0, 20));
  }
  EXPECT_EQ(receiver.ask(pull_of(receiver.pull("unknown@0_1", 0, 100))), "trans_error");
  EXPECT_EQ(receiver.ask(pull_of(receiver.pull("k@0_1", 0, 100))), "trans_done");
}

// MORI's own descriptors name no backend of ours.
TEST_F(OriginalReceiverTest, R05_the_descriptors_of_a_mori_engine_end_in_an_error) {
  put("k", 100, 6);
  PullFields pull = receiver.pull("k@0_1", 0, 100);
  pull.engine = corpus("engine_mori");
  pull.memory = corpus("memory_mori");
  EXPECT_EQ(receiver.ask(pull_of(pull)), "trans_error");
  EXPECT_TRUE(is_published("k"));
  EXPECT_EQ(receiver.ask(pull_of(receiver.pull("k@0_1", 0, 100))), "trans_done");
}

// Both are under way when the query behind them is answered, since one connection keeps its order; neither
// goes on before the receiver's engine is driven.
TEST(OriginalReceiver, R02_two_pulls_of_one_key_at_the_same_time_are_both_served) {
  const auto sender = make_connector({});
  IOEngineConfig by_hand = config_of("slow-receiver", "shm");
  by_hand.progress_thread = false;
  OriginalReceiver receiver(sender->connection_info().zmq_port, by_hand);
  receiver.connect(zmq::socket_type::dealer);
  std::vector<std::byte> payload(200'000);
  fill(payload, 7);
  const std::uint64_t free_before = sender->health().pool_free;
  ASSERT_TRUE(sender->put("0", "1", "k", std::span<const std::byte>(payload), {}).ok());
  receiver.send_ahead(pull_of(receiver.pull("k@0_1", 0, payload.size())));
  receiver.send_ahead(pull_of(receiver.pull("k@0_1", 500'000, payload.size())));
  receiver.send_ahead(query_of("k@0_1"));
  EXPECT_EQ(receiver.answer_with_frame(), reply_of("k@0_1", payload.size(), true));
  EXPECT_EQ(sender->put("0", "1", "k", std::span<const std::byte>(payload), {}).error().code(),
            ErrorCode::conflict)
      << "it is being read";
  ASSERT_TRUE(sender->cleanup("k", "0", "1").ok());
  std::atomic<bool> stop{false};
  std::thread driver([&] {
    while (!stop) receiver.engine->progress(ms(5));
  });
  EXPECT_EQ(receiver.answer_with_frame(), "trans_done");
  EXPECT_EQ(receiver.answer_with_frame(), "trans_done");
  stop = true;
  driver.join();
  EXPECT_EQ(std::memcmp(receiver.pool->bytes().data(), payload.data(), payload.size()), 0);
  EXPECT_EQ(std::memcmp(receiver.pool->bytes().data() + 500'000, payload.data(), payload.size()), 0);
  EXPECT_TRUE(eventually([&] { return sender->health().pool_free == free_before; }));
}

}  // namespace
}  // namespace stagewire::compat
