// A stagewire connector takes payloads from a sender of the original's kind.
#include <future>

#include "compat/original_peer.hpp"

namespace stagewire::compat {
namespace {

using namespace testing_support;

constexpr std::uint64_t kSize = 100'000;

OriginalSender::Answer always(const std::string& reply) {
  return [reply](const std::string&) { return reply; };
}

/// Says `info_not_found` so often, then names the payload.
OriginalSender::Answer after(int refusals, const std::string& reply) {
  const auto left = std::make_shared<std::atomic<int>>(refusals);
  return [left, reply](const std::string&) -> std::optional<std::string> {
    return left->fetch_sub(1) > 0 ? "info_not_found" : reply;
  };
}

struct OriginalSenderTest : ::testing::Test {
  void open(double timeout_s = 30) {
    ConnectorConfig config;
    config.sender_host = "127.0.0.1";
    config.sender_zmq_port = sender.port;
    config.original_timeout_s = timeout_s;
    receiver = make_connector(config);
  }
  /// Pulls are served as the original does.
  void serve_pulls() {
    sender.answer_pulls([this](const std::string& request) -> std::optional<std::string> {
      return writer.write(PullReader(request).read()) ? "trans_done" : "trans_error";
    });
  }
  Result<Delivery> get(const std::string& key, ms timeout = kPatience,
                       const std::optional<TransferMetadata>& metadata = {}) {
    return receiver->get("0", "1", key, {.timeout = timeout, .metadata = metadata});
  }
  void expect_payload(const Result<Delivery>& got, std::uint64_t from = 0) {
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    ASSERT_EQ(got->size(), kSize);
    EXPECT_EQ(got->route(), Route::write);
    EXPECT_EQ(std::memcmp(got->bytes().data(), writer.source->bytes().data() + from, kSize), 0);
  }

  OriginalWriter writer{4 << 20};
  OriginalSender sender;
  std::unique_ptr<Connector> receiver;
};

TEST_F(OriginalSenderTest, full_partial_and_no_metadata_bring_the_payload) {
  open();
  fill(writer.source->bytes(), 1);
  serve_pulls();
  for (int kind = 0; kind < 3; ++kind) {
    const std::string key = "k" + std::to_string(kind);
    sender.answer_queries(after(3, reply_of(key + "@0_1", kSize, true)));
    std::optional<TransferMetadata> metadata;
    if (kind > 0) metadata = TransferMetadata{"127.0.0.1", sender.port, std::nullopt, true};
    if (kind > 1) metadata->data_size = kSize;
    auto got = get(key, kPatience, metadata);
    expect_payload(got);
    EXPECT_EQ(got->kind(), DeliveryKind::bytes);
    got->release();
  }
  EXPECT_EQ(sender.pulls, 3);
  EXPECT_EQ(receiver->health().pool_free, receiver->health().pool_size);
  EXPECT_EQ(receiver->health().write.count, 3U);
}

TEST_F(OriginalSenderTest, what_is_not_on_the_fast_path_is_an_object) {
  open();
  const std::string object = "\x81" + packed_text("finished") + "\xc3";
  std::memcpy(writer.source->bytes().data(), object.data(), object.size());
  serve_pulls();
  sender.answer_queries(always(reply_of("o@0_1", object.size(), false)));
  const auto got = get("o");
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_EQ(got->kind(), DeliveryKind::object);
  const auto value = got->object();
  ASSERT_TRUE(value.ok());
  ASSERT_NE(value->find("finished"), nullptr);
  EXPECT_EQ(*value->find("finished")->get_if<bool>(), true);
}

TEST_F(OriginalSenderTest, R05_trans_error_ends_the_get_and_the_next_one_may_succeed) {
  open();
  fill(writer.source->bytes(), 2);
  sender.answer_queries(always(reply_of("k@0_1", kSize, true)));
  for (const char* answer : {"trans_error", "trans_done?", ""}) {
    sender.answer_pulls(always(answer));
    const auto got = get("k");
    ASSERT_FALSE(got.ok()) << answer;
    EXPECT_EQ(got.error().code(), ErrorCode::failed);
    EXPECT_NE(got.error().message().find(std::to_string(sender.port)), std::string::npos);
  }
  EXPECT_EQ(receiver->health().pool_quarantined, 0U) << "it has said that it has stopped";
  serve_pulls();
  expect_payload(get("k"));
}

TEST_F(OriginalSenderTest, R16_an_answer_that_makes_no_sense_ends_the_get) {
  open();
  for (const std::string& answer :
       {std::string("\x83"), reply_of("another@0_1", kSize, true), reply_of("k@0_1", 0, true),
        reply_of("k@0_1", UINT64_MAX, true), reply_of("k@0_1", std::uint64_t{1} << 40U, true)}) {
    sender.answer_queries(always(answer));
    EXPECT_FALSE(get("k").ok());
  }
  EXPECT_EQ(sender.pulls, 0);
  EXPECT_EQ(receiver->health().pool_free, receiver->health().pool_size);
}

TEST_F(OriginalSenderTest, R05_a_query_that_is_never_answered_ends_and_nothing_is_stuck) {
  open(0.2);
  fill(writer.source->bytes(), 3);
  const auto got = get("k");
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code(), ErrorCode::timeout) << got.error().to_string();
  sender.answer_queries(after(1, reply_of("k@0_1", kSize, true)));
  serve_pulls();
  expect_payload(get("k"));
}

// A sender that had reached our pool before and says nothing more may write at any time: its block is kept
// back until its connection ends, whatever time passes.
TEST_F(OriginalSenderTest, R01_the_block_of_an_unanswered_pull_is_kept_until_its_writer_is_gone) {
  open(0.2);
  fill(writer.source->bytes(), 4);
  sender.answer_queries([](const std::string& query) -> std::optional<std::string> {
    return reply_of(query.ends_with("first@0_1") ? "first@0_1" : "lost@0_1", kSize, true);
  });
  serve_pulls();
  expect_payload(get("first"));

  std::promise<PullFields> asked;
  sender.answer_pulls([&](const std::string& request) -> std::optional<std::string> {
    asked.set_value(PullReader(request).read());
    return std::nullopt;
  });
  const auto lost = get("lost");
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().code(), ErrorCode::timeout);
  const PullFields pull = asked.get_future().get();
  EXPECT_GE(receiver->health().pool_quarantined, kSize);

  // Everything else of the pool is in use, then the write comes after all.
  std::vector<PoolBuffer> others;
  while (auto buffer = receiver->allocate(64 << 10, {})) {
    std::memset(buffer->bytes().data(), 0x77, buffer->bytes().size());
    others.push_back(std::move(*buffer));
  }
  EXPECT_GT(others.size(), 100U);
  EXPECT_TRUE(writer.write(pull).ok());
  for (const PoolBuffer& buffer : others) EXPECT_TRUE(all_are(buffer.bytes(), std::byte{0x77}));
  EXPECT_GE(receiver->health().pool_quarantined, kSize);
  others.clear();

  writer.source.reset();
  writer.engine.reset();
  EXPECT_TRUE(eventually([&] { return receiver->health().pool_quarantined == 0; }));
  EXPECT_EQ(receiver->health().pool_free, receiver->health().pool_size);
}

// A sender that was stopped before it reached our pool at all: nothing is kept back for it, and what it was
// told opens nothing any more.
TEST_F(OriginalSenderTest, R01_a_writer_that_comes_after_the_timeout_is_not_let_in) {
  open(0.2);
  fill(writer.source->bytes(), 5);
  sender.answer_queries(always(reply_of("lost@0_1", kSize, true)));
  std::promise<PullFields> asked;
  sender.answer_pulls([&](const std::string& request) -> std::optional<std::string> {
    asked.set_value(PullReader(request).read());
    return std::nullopt;
  });
  EXPECT_FALSE(get("lost").ok());
  const PullFields pull = asked.get_future().get();
  std::vector<PoolBuffer> blocks;
  while (auto buffer = receiver->allocate(64 << 10, {})) {
    std::memset(buffer->bytes().data(), 0x77, buffer->bytes().size());
    blocks.push_back(std::move(*buffer));
  }
  EXPECT_FALSE(writer.write(pull).ok());
  for (const PoolBuffer& buffer : blocks) EXPECT_TRUE(all_are(buffer.bytes(), std::byte{0x77}));
  // A new pull is told something new.
  blocks.clear();
  serve_pulls();
  expect_payload(get("lost"));
}

TEST_F(OriginalSenderTest, R09_a_waiting_get_outlives_a_restart_of_the_sender) {
  auto first = std::make_unique<OriginalSender>();
  const int port = first->port;
  first->answer_queries(always("info_not_found"));
  open();
  receiver->update_sender_info("127.0.0.1", port);
  fill(writer.source->bytes(), 6);
  auto waiting = std::async(std::launch::async, [&] { return get("k"); });
  ASSERT_TRUE(eventually([&] { return first->queries > 3; }));
  first.reset();
  OriginalSender second(port);
  second.answer_queries(always(reply_of("k@0_1", kSize, true)));
  second.answer_pulls([this](const std::string& request) -> std::optional<std::string> {
    return writer.write(PullReader(request).read()) ? "trans_done" : "trans_error";
  });
  expect_payload(waiting.get());
}

// One that answers nothing at all, and one that has gone silent in the middle, while others are served.
TEST_F(OriginalSenderTest, R06_dead_senders_do_not_hold_up_the_others) {
  open();
  OriginalSender mute;
  mute.silent = true;
  sender.answer_queries(always(reply_of("stuck@0_1", kSize, true)));  // its pull is never answered
  const auto healthy = make_connector({});
  const auto at = [](int port) { return TransferMetadata{"127.0.0.1", port, std::nullopt, true}; };
  std::promise<Status> nothing;
  std::promise<Status> stuck;
  ASSERT_TRUE(
      receiver
          ->get_async("0", "1", "nothing", {.timeout = kPatience, .metadata = at(mute.port)},
                      [&](const Result<Delivery>& got) { nothing.set_value(got ? Status() : got.error()); })
          .ok());
  ASSERT_TRUE(
      receiver
          ->get_async("0", "1", "stuck", {.timeout = kPatience, .metadata = at(sender.port)},
                      [&](const Result<Delivery>& got) { stuck.set_value(got ? Status() : got.error()); })
          .ok());
  ASSERT_TRUE(eventually([&] { return sender.pulls == 1; }));
  std::vector<std::byte> bytes(20'000);
  for (int i = 0; i < 200; ++i) {
    fill(bytes, static_cast<std::uint64_t>(i));
    const std::string key = "k" + std::to_string(i);
    ASSERT_TRUE(healthy->put("0", "1", key, std::span<const std::byte>(bytes), {}).ok());
    const auto got = get(key, kPatience, at(healthy->connection_info().zmq_port));
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    EXPECT_EQ(std::memcmp(got->bytes().data(), bytes.data(), bytes.size()), 0);
  }
  EXPECT_EQ(receiver->health().gets, 200U);
  receiver->abandon_get("0", "1", "nothing");
  receiver->abandon_get("0", "1", "stuck");
  EXPECT_EQ(code_of(nothing.get_future().get()), ErrorCode::cancelled);
  EXPECT_EQ(code_of(stuck.get_future().get()), ErrorCode::cancelled);
  receiver->close();
}

}  // namespace
}  // namespace stagewire::compat
