// The chunk path with a sender of the original's kind, which has to be asked for every key again and again.
#include <map>

#include "compat/original_peer.hpp"
#include "stagewire/chunk.hpp"

namespace stagewire::compat {
namespace {

using namespace testing_support;

/// The key in a query.
std::string key_in(const std::string& query) {
  const std::string name = "request_id";
  const std::size_t head = query.find(name) + name.size();
  return query.substr(head + (query[head] == '\xd9' ? 2 : 1));
}

/// Chunks as the original makes them: {"meta": {"finished": bool}}.
std::string chunk_bytes(bool finished) {
  return "\x81" + packed_text("meta") + "\x81" + packed_text("finished") + (finished ? "\xc3" : "\xc2");
}

struct OriginalChunks : ::testing::Test {
  void SetUp() override {
    ConnectorConfig config;
    config.sender_host = "127.0.0.1";
    config.sender_zmq_port = sender.port;
    connector = make_connector(config);
    ChunkAdapterOptions options;
    options.stage_id = 1;
    auto made = ChunkTransferAdapter::create(*connector, nullptr, options);
    ASSERT_TRUE(made.ok());
    adapter = std::move(*made);
    const std::string open = chunk_bytes(false);
    const std::string last = chunk_bytes(true);
    std::memcpy(writer.source->bytes().data(), open.data(), open.size());
    std::memcpy(writer.source->bytes().data() + 1024, last.data(), last.size());
    size = open.size();
    sender.answer_pulls([this](const std::string& request) -> std::optional<std::string> {
      const PullFields pull = PullReader(request).read();
      return writer.write(pull, is_last(pull.key) ? 1024 : 0) ? "trans_done" : "trans_error";
    });
  }
  static bool is_last(const std::string& key) { return key.find("_0_3@") != std::string::npos; }

  OriginalWriter writer{1 << 20};
  OriginalSender sender;
  std::unique_ptr<Connector> connector;
  std::unique_ptr<ChunkTransferAdapter> adapter;
  std::size_t size = 0;
};

TEST_F(OriginalChunks, R22_many_requests_are_polled_for_one_at_a_time_until_each_has_all_its_chunks) {
  constexpr int kRequests = 20;
  // Each key is there at the third question. A second question before the answer to the first would be seen
  // here: answers are given one by one, and every one is awaited.
  std::map<std::string, int> asked;
  sender.answer_queries([&](const std::string& query) -> std::optional<std::string> {
    const std::string key = key_in(query);
    if (++asked[key] < 3) return "info_not_found";
    return reply_of(key, size, false);
  });
  for (int i = 0; i < kRequests; ++i) {
    const std::string id = "r" + std::to_string(i);
    ASSERT_TRUE(adapter->load(id, id).ok());
  }
  std::map<std::string, std::int64_t> next;
  int finished = 0;
  std::vector<ChunkEvent> events;
  while (finished < kRequests) {
    ASSERT_TRUE(adapter->wait(kPatience));
    adapter->take(events);
    for (const ChunkEvent& event : events) {
      ASSERT_TRUE(event.chunk.ok()) << event.chunk.error().to_string();
      const std::string id(event.internal_id);
      EXPECT_EQ(event.chunk->index, next[id]++);
      if (event.chunk->finished) {
        EXPECT_EQ(event.chunk->index, 3);
        ++finished;
      } else {
        ASSERT_TRUE(adapter->load(id, id).ok());
      }
    }
  }
  EXPECT_EQ(sender.pulls, 4 * kRequests);
  EXPECT_EQ(asked.size(), 4U * kRequests) << "a key behind the last chunk was asked for";
  events.clear();
  EXPECT_EQ(connector->health().pool_free, connector->health().pool_size);
}

TEST_F(OriginalChunks, R06_a_request_that_was_given_up_is_not_asked_for_any_more) {
  std::atomic<int> given_up{0};
  sender.answer_queries([&](const std::string& query) -> std::optional<std::string> {
    if (key_in(query).starts_with("gone")) ++given_up;
    return "info_not_found";
  });
  ASSERT_TRUE(adapter->load("gone", "gone").ok());
  ASSERT_TRUE(adapter->load("stays", "stays").ok());
  ASSERT_TRUE(eventually([&] { return given_up > 2; }));
  adapter->abort("gone", "gone", "the user left");
  // One question may be on its way.
  const int before = given_up;
  const int queries = sender.queries;
  ASSERT_TRUE(eventually([&] { return sender.queries > queries + 10; }));
  EXPECT_LE(given_up, before + 1);
}

}  // namespace
}  // namespace stagewire::compat
