// The simulated verbs themselves: what tests over them rely on.
#include <thread>

#include "backends/rdma/queue_pair.hpp"
#include "fake_verbs/fixture.hpp"

namespace stagewire::fake_verbs {
namespace {

using backends::rdma::Handle;
using backends::rdma::Port;
using backends::rdma::QueuePair;
using backends::rdma::Settings;
using backends::rdma::Verbs;

/// Two connected queue pairs of one port, and memory that both use.
class FakeVerbsSimulation : public ::testing::Test {
 protected:
  static constexpr std::size_t kSize = 256;

  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    control().reset();
    const auto verbs = Verbs::open();
    ASSERT_TRUE(verbs.ok());
    verbs_ = *verbs;
    int count = 0;
    ibv_device** devices = verbs_->get_device_list(&count);
    ASSERT_EQ(count, 1);
    auto port = Port::open(*verbs_, devices[0], 1, Settings());
    verbs_->free_device_list(devices);
    ASSERT_TRUE(port.ok()) << port.error().to_string();
    port_ = std::move(*port);
    auto region = port_->register_memory(bytes_, kSize, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_TRUE(region.ok());
    region_ = std::move(*region);
    one_ = make();
    other_ = make();
    ASSERT_TRUE(one_ && other_);
    ASSERT_TRUE(one_->connect({port_->rail(), other_->number(), 7, 1}, 7).ok());
    ASSERT_TRUE(other_->connect({port_->rail(), one_->number(), 7, 1}, 7).ok());
  }
  void TearDown() override {
    one_.reset();
    other_.reset();
    region_.reset();
    port_.reset();
    expect_nothing_is_left();
  }
  std::unique_ptr<QueuePair> make() {
    auto pair = QueuePair::create(port_, {.sends = 2, .receives = 2});
    return pair ? std::move(*pair) : nullptr;
  }
  ibv_sge half(std::size_t which, std::uint32_t size = kSize / 2) {
    return {reinterpret_cast<std::uintptr_t>(bytes_ + which * kSize / 2), size, region_->lkey};
  }
  Status receive(ibv_sge into) {
    ibv_recv_wr request{};
    request.sg_list = &into;
    request.num_sge = 1;
    return other_->post_receive(&request);
  }
  Status send(ibv_sge from) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &from;
    request.num_sge = 1;
    return one_->post(&request, {.work_requests = 1});
  }
  ibv_wc completion(bool of_sent) {
    ibv_wc completion{};
    while (port_->poll(of_sent, &completion, 1) == 0) std::this_thread::yield();
    return completion;
  }

  const Verbs* verbs_ = nullptr;
  alignas(64) std::byte bytes_[kSize] = {};
  std::shared_ptr<Port> port_;
  Handle<ibv_mr> region_;
  std::unique_ptr<QueuePair> one_, other_;
};

TEST_F(FakeVerbsSimulation, bytes_are_fetched_when_the_device_gets_to_them) {
  control().pause(true);
  bytes_[0] = std::byte{1};
  ASSERT_TRUE(receive(half(1)).ok());
  ASSERT_TRUE(send(half(0)).ok());
  bytes_[0] = std::byte{2};
  control().pause(false);
  EXPECT_EQ(completion(true).status, IBV_WC_SUCCESS);
  EXPECT_EQ(completion(false).byte_len, kSize / 2);
  EXPECT_EQ(bytes_[kSize / 2], std::byte{2});
}

// On a queue pair that is connected to itself, as none of the backend takes inline bytes.
TEST_F(FakeVerbsSimulation, inline_bytes_are_taken_when_they_are_posted) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = port_->sent();
  wanted.recv_cq = port_->received();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {
      .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64};
  const Handle<ibv_qp> pair(verbs_->create_qp(port_->domain(), &wanted), {verbs_});
  ASSERT_TRUE(pair);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  ASSERT_EQ(verbs_->modify_qp(pair.get(), &attributes,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
  attributes.qp_state = IBV_QPS_RTR;
  attributes.dest_qp_num = pair->qp_num;
  attributes.ah_attr = port_->path_to(port_->rail());
  ASSERT_EQ(verbs_->modify_qp(pair.get(), &attributes,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            0);
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(verbs_->modify_qp(pair.get(), &attributes,
                              IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
            0);
  control().pause(true);
  ibv_sge into = half(1);
  ibv_recv_wr receive{};
  receive.sg_list = &into;
  receive.num_sge = 1;
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(pair.get(), &receive, &bad_receive), 0);
  std::byte elsewhere[64] = {std::byte{1}};  // needs no registration
  ibv_sge from{reinterpret_cast<std::uintptr_t>(elsewhere), sizeof elsewhere, 0};
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  send.sg_list = &from;
  send.num_sge = 1;
  ibv_send_wr* bad_send = nullptr;
  ASSERT_EQ(ibv_post_send(pair.get(), &send, &bad_send), 0);
  elsewhere[0] = std::byte{2};
  control().pause(false);
  EXPECT_EQ(completion(false).byte_len, 64U);
  EXPECT_EQ(bytes_[kSize / 2], std::byte{1});
  EXPECT_EQ(completion(true).status, IBV_WC_SUCCESS);
}

TEST_F(FakeVerbsSimulation, a_device_without_a_receive_tries_again_for_a_while) {
  ASSERT_TRUE(send(half(0)).ok());
  EXPECT_EQ(completion(true).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_F(FakeVerbsSimulation, a_queue_pair_that_stops_gives_back_what_it_holds) {
  ASSERT_TRUE(receive(half(1)).ok());
  other_->stop();
  EXPECT_EQ(completion(false).status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_TRUE(send(half(0)).ok());
  EXPECT_EQ(completion(true).status, IBV_WC_RETRY_EXC_ERR);
}

using FakeVerbsSimulationDeathTest = FakeVerbsSimulation;

TEST_F(FakeVerbsSimulationDeathTest, what_real_verbs_would_not_bear_aborts) {
  EXPECT_DEATH(
      {
        control().pause(true);
        for (int i = 0; i < 3; ++i) static_cast<void>(send(half(0)));
      },
      "more is posted to a send queue than its 2 places");
  EXPECT_DEATH(for (int i = 0; i < 3; ++i) static_cast<void>(receive(half(0))),
               "more is posted to a receive queue than its 2 places");
  EXPECT_DEATH(static_cast<void>(send(half(1, kSize))), "is not inside of its registration");
  EXPECT_DEATH(verbs_->dealloc_pd(port_->domain()), "a protection domain is destroyed under 3");
  EXPECT_DEATH(verbs_->destroy_cq(port_->sent()), "a completion queue is destroyed under 2 uses");
  EXPECT_DEATH(verbs_->ack_cq_events(port_->sent(), 1), "more events are acknowledged than there were");
  EXPECT_DEATH(verbs_->close_device(port_->context()), "a device is closed with 4 domains");
}

}  // namespace
}  // namespace stagewire::fake_verbs
