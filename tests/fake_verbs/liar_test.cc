// A peer that was let in and then lies: it speaks the backend's own formats, and says what no backend would.
#include <gmock/gmock.h>

#include "backends/rdma/frame.hpp"
#include "backends/rdma/greeter.hpp"
#include "backends/rdma/open_ports.hpp"
#include "backends/rdma/queue_pair.hpp"
#include "backends/rdma/registration.hpp"
#include "fake_verbs/fixture.hpp"

namespace stagewire::fake_verbs {
namespace {

namespace rdma = backends::rdma;
using rdma::FrameHeader;
using rdma::FrameKind;
using ::testing::HasSubstr;

/// The other end of a link, driven by the test.
class Liar {
 public:
  static constexpr std::uint32_t kBuffers = 64;
  static constexpr std::uint32_t kSends = 64;
  static constexpr std::size_t kBufferSize = 8192;

  Liar() {
    auto ports = rdma::open_ports(settings_);
    if (!ports) throw std::runtime_error(ports.error().to_string());
    port_ = (*ports)[0];
    greeter_ = *rdma::Greeter::create(port_);
    address_.instance = rdma::random_number();
    address_.secret = rdma::random_number();
    address_.rails = {port_->rail()};
    address_.rails[0].greeter = greeter_->number();
    memory_.resize((kBuffers + 1) * kBufferSize);
    region_ = *port_->register_memory(memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    renew();
  }
  ~Liar() { pairs_.clear(); }

  /// Other queue pairs.
  void renew() {
    pairs_.clear();
    for (int i = 0; i < 2; ++i) {
      pairs_.push_back(
          *rdma::QueuePair::create(port_, {.sends = kSends, .receives = kBuffers, .segments = 3}));
    }
    for (std::uint32_t i = 0; i < kBuffers; ++i) receive(i);
    end_.pairs = {pairs_[0]->number(), pairs_[1]->number()};
  }

  /// What it says of its end.
  rdma::LinkEnd& end() { return end_; }
  rdma::Address& address() { return address_; }
  std::vector<std::byte> packed_address() const { return rdma::pack(address_); }

  void call(std::span<const std::byte> victim, std::uint32_t attempt = 1) {
    const auto theirs = *rdma::unpack_address(victim);
    rdma::Call call;
    call.secret = theirs.secret;
    call.attempt = attempt;
    const auto own = packed_address();
    const auto* data = reinterpret_cast<const std::uint8_t*>(own.data());
    call.address.assign(data, data + own.size());
    call.end = end_;
    call.rails.assign(end_.pairs.size(), 0);
    call.caller_rails = call.rails;
    peer_rail_ = theirs.rails[0];
    ASSERT_TRUE(greeter_->send(peer_rail_, rdma::pack(rdma::Greeting(call))).ok());
  }
  void answer(const rdma::Call& call) {
    peer_rail_ = rdma::unpack_address(std::as_bytes(std::span(call.address)))->rails[0];
    ASSERT_TRUE(
        greeter_
            ->send(peer_rail_, rdma::pack(rdma::Greeting(rdma::Answer{call.end.link, call.attempt, end_})))
            .ok());
  }
  void connect(const rdma::LinkEnd& theirs) {
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      ASSERT_TRUE(pairs_[i]
                      ->connect({peer_rail_, theirs.pairs[i], theirs.sequence, theirs.reads}, end_.sequence)
                      .ok());
    }
  }

  /// The next greeting or nothing.
  std::optional<rdma::Greeting> hear() {
    ibv_wc completion{};
    while (port_->poll(true, &completion, 1) == 1) {
      if (completion.qp_num == greeter_->number()) {
        greeter_->on_sent(completion);
      } else if (completion.status == IBV_WC_SUCCESS) {
        pairs_[0]->take_completed();
      }
    }
    std::optional<rdma::Greeting> heard;
    while (!heard && port_->poll(false, &completion, 1) == 1) {
      if (completion.qp_num == greeter_->number()) {
        if (auto greeting = rdma::unpack_greeting(greeter_->on_received(completion)))
          heard = std::move(*greeting);
        greeter_->take_back(completion);
      } else if (completion.status == IBV_WC_SUCCESS) {
        ++frames_heard_;
        if (reads_) receive(static_cast<std::uint32_t>(completion.wr_id));
      }
    }
    return heard;
  }
  std::size_t frames_heard() const { return frames_heard_; }
  /// Everything that was said has been taken: a faster liar would only break its own queue pair.
  bool can_say() const { return pairs_[0]->room() == kSends; }
  void stop_reading() { reads_ = false; }

  void say(const FrameHeader& header, std::size_t message = 0) {
    say_bytes(header, rdma::kFrameHeader + rdma::padded(header.payload_size) + message);
  }
  /// `size`: of all that is sent, whatever the header says.
  void say_bytes(const FrameHeader& header, std::size_t size) {
    std::byte* const out = memory_.data() + kBuffers * kBufferSize;
    std::memcpy(out, &header, sizeof header);
    ibv_sge segment{reinterpret_cast<std::uintptr_t>(out), static_cast<std::uint32_t>(size), region_->lkey};
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    request.sg_list = &segment;
    request.num_sge = 1;
    ASSERT_TRUE(pairs_[0]->post(&request, {.work_requests = 1}).ok());
  }

 private:
  void receive(std::uint32_t index) {
    ibv_sge segment{reinterpret_cast<std::uintptr_t>(memory_.data() + index * kBufferSize), kBufferSize,
                    region_->lkey};
    ibv_recv_wr request{};
    request.wr_id = index;
    request.sg_list = &segment;
    request.num_sge = 1;
    if (!pairs_[0]->post_receive(&request)) throw std::runtime_error("receive");
  }

  const rdma::Settings settings_;
  std::shared_ptr<rdma::Port> port_;
  std::unique_ptr<rdma::Greeter> greeter_;
  rdma::Address address_;
  rdma::Rail peer_rail_;
  std::vector<std::byte> memory_;
  rdma::Handle<ibv_mr> region_;
  std::vector<std::unique_ptr<rdma::QueuePair>> pairs_;
  rdma::LinkEnd end_{.link = rdma::random_number(),
                     .pairs = {},
                     .sequence = 7,
                     .buffers = kBuffers,
                     .message_size = 512,
                     .payload_size = 0,
                     .payloads = 0,
                     .reads = 1,
                     .frames_received = 0,
                     .frames_freed = 0,
                     .payloads_freed = 0};
  bool reads_ = true;
  std::size_t frames_heard_ = 0;
};

class FakeVerbsLiar : public FakeVerbs {
 protected:
  void SetUp() override {
    FakeVerbs::SetUp();
    victim_ = std::make_unique<Side>(kVictim, options());
    liar_ = std::make_unique<Liar>();
  }
  void TearDown() override {
    endpoint_.reset();
    liar_.reset();
    victim_.reset();
    FakeVerbs::TearDown();
  }
  template <typename Done>
  bool until(Done done) {
    return drive({victim_.get()}, done);
  }
  template <typename T>
  std::optional<T> await_greeting() {
    std::optional<T> found;
    EXPECT_TRUE(until([&] {
      const auto heard = liar_->hear();
      if (heard && std::holds_alternative<T>(*heard)) found = std::get<T>(*heard);
      return found.has_value();
    }));
    return found;
  }
  /// The liar calls and is let in.
  void get_in() {
    liar_->call(victim_->backend->address());
    const auto answer = await_greeting<rdma::Answer>();
    ASSERT_TRUE(answer.has_value());
    liar_->connect(answer->end);
    liar_->say({.kind = FrameKind::begin});
    ASSERT_TRUE(until([&] { return victim_->events.arrived.size() == 1; }));
  }
  void expect_thrown_out(const std::string& words) {
    ASSERT_TRUE(until([&] {
      liar_->hear();
      return victim_->events.lost.size() == 1;
    }));
    EXPECT_EQ(victim_->events.lost[0].reason.code(), ErrorCode::corrupt);
    EXPECT_THAT(victim_->events.lost[0].reason.message(), HasSubstr(words));
    // Others are served as before.
    Side other(kVictim, options());
    auto to_victim = other.connect(*victim_);
    ASSERT_TRUE(drive({victim_.get(), &other}, [&] { return to_victim->status().has_value(); }));
    EXPECT_TRUE(to_victim->status()->ok());
    to_victim.reset();
    ASSERT_TRUE(drive({victim_.get(), &other}, [&] { return victim_->events.lost.size() == 2; }));
  }

  const conformance::Subject kVictim{"rdma", "rdma", "", true};
  std::unique_ptr<Side> victim_;
  std::unique_ptr<Liar> liar_;
  std::unique_ptr<Endpoint> endpoint_;
};

TEST_F(FakeVerbsLiar, R16_frames_that_make_no_sense) {
  struct Case {
    FrameHeader header;
    std::size_t bytes;
  };
  const Case cases[] = {
      {{.kind = FrameKind::message, .message_size = 100}, 64},         // shorter than it says
      {{.kind = FrameKind::message, .message_size = 100}, 200},        // longer
      {{.kind = FrameKind::message, .message_size = 0xffffffff}, 64},  // wraps around
      {{.kind = FrameKind::message, .message_size = 0, .payload_size = 1 << 30},
       64},  // beyond what was agreed
      {{.kind = static_cast<FrameKind>(99)}, 64},
      {{.kind = FrameKind::message}, 3},
  };
  for (const Case& lie : cases) {
    get_in();
    if (HasFatalFailure()) return;
    liar_->say_bytes(lie.header, lie.bytes);
    expect_thrown_out("makes no sense");
    liar_.reset();
    liar_ = std::make_unique<Liar>();
    victim_->events = {};
  }
}

TEST_F(FakeVerbsLiar, R16_it_is_done_with_more_frames_than_there_were) {
  get_in();
  liar_->say({.kind = FrameKind::credits, .freed_frames = 1000});
  expect_thrown_out("is done with 1000 frames");
}

TEST_F(FakeVerbsLiar, R16_it_is_done_with_payloads_that_were_never_sent) {
  get_in();
  liar_->say({.kind = FrameKind::credits, .freed_payloads = 1});
  expect_thrown_out("is done with");
}

TEST_F(FakeVerbsLiar, R16_a_question_of_another_size) {
  get_in();
  liar_->say({.kind = FrameKind::import_request, .message_size = 3}, 3);
  expect_thrown_out("a question of 3 bytes");
}

// It asks and never says that it has read the answers: what waits for it is bounded.
TEST_F(FakeVerbsLiar, R16_questions_without_end) {
  get_in();
  liar_->stop_reading();
  std::uint32_t asked = 0;
  ASSERT_TRUE(until([&] {
    liar_->hear();
    if (asked < 4000 && liar_->can_say() && victim_->events.lost.empty()) {
      liar_->say({.kind = FrameKind::import_request, .message_size = 16, .number = ++asked}, 16);
    }
    return victim_->events.lost.size() == 1;
  }));
  expect_thrown_out("asks faster than it listens");
  EXPECT_LT(asked, 4000U);
}

TEST_F(FakeVerbsLiar, R16_the_victim_calls_and_is_told_of_frames_that_it_never_sent) {
  endpoint_ = victim_->connect(liar_->packed_address());
  const auto call = await_greeting<rdma::Call>();
  ASSERT_TRUE(call.has_value());
  liar_->end().frames_received = 5;
  liar_->answer(*call);
  ASSERT_TRUE(until([&] { return endpoint_->status().has_value(); }));
  ASSERT_FALSE(endpoint_->status()->ok());
  EXPECT_EQ(endpoint_->status()->error().code(), ErrorCode::corrupt);
  EXPECT_THAT(endpoint_->status()->error().message(), HasSubstr("has received 5 frames of 0"));
}

TEST_F(FakeVerbsLiar, R16_the_victim_calls_and_is_given_another_number_of_queue_pairs) {
  endpoint_ = victim_->connect(liar_->packed_address());
  const auto call = await_greeting<rdma::Call>();
  ASSERT_TRUE(call.has_value());
  liar_->end().pairs.push_back(4711);
  liar_->answer(*call);
  // It calls again, in case that was a slip.
  const auto again = await_greeting<rdma::Call>();
  ASSERT_TRUE(again.has_value());
  EXPECT_GT(again->attempt, call->attempt);
}

TEST_F(FakeVerbsLiar, R16_answers_to_questions_that_were_not_asked_change_nothing) {
  endpoint_ = victim_->connect(liar_->packed_address());
  const auto call = await_greeting<rdma::Call>();
  ASSERT_TRUE(call.has_value());
  liar_->answer(*call);
  liar_->connect(call->end);
  ASSERT_TRUE(until([&] {
    liar_->hear();
    return endpoint_->status().has_value() && liar_->frames_heard() > 0;
  }));
  const Memory memory(4096);
  rdma::RegionKey key{.instance = liar_->address().instance,
                      .id = 1,
                      .token = 2,
                      .base = 4096,
                      .size = 4096,
                      .access = 3,
                      .keys = {1}};
  const auto region = endpoint_->import(rdma::pack(key));
  ASSERT_TRUE(region.ok());
  liar_->say({.kind = FrameKind::import_answer, .number = 77});
  const std::size_t heard = liar_->frames_heard();
  ASSERT_TRUE(until([&] {
    liar_->hear();
    return liar_->frames_heard() > heard;
  }));
  EXPECT_FALSE((*region)->status().has_value());
  liar_->say({.kind = FrameKind::import_answer, .number = 1, .error = 12345});
  ASSERT_TRUE(until([&] { return (*region)->status().has_value(); }));
  EXPECT_FALSE((*region)->status()->ok()) << "an error that nobody knows is an error";
  EXPECT_TRUE(endpoint_->status()->ok());
}

}  // namespace
}  // namespace stagewire::fake_verbs
