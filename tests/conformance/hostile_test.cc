// A peer that scribbles over the shared memory, or speaks nonsense on the socket, harms itself only.
#include <sys/socket.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "backends/shm/formats.hpp"
#include "backends/shm/ring_layout.hpp"
#include "backends/shm/unix_socket.hpp"
#include "conformance/child.hpp"

namespace stagewire::conformance {
namespace {

namespace shm = backends::shm;

std::uint64_t seed() {
  const char* wanted = std::getenv("STAGEWIRE_SEED");
  return wanted == nullptr ? 20260101 : std::strtoull(wanted, nullptr, 10);
}

/// Every inbox that this process has mapped; a forked one has inherited its parent's as well.
std::vector<std::span<std::byte>> mapped_inboxes() {
  std::vector<std::span<std::byte>> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("stagewire-inbox") == std::string::npos) continue;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    found.emplace_back(reinterpret_cast<std::byte*>(begin), end - begin);
  }
  return found;
}

/// Half of the rounds everything is random, in the others a plausible head stands before random records.
void scribble(std::span<std::byte> inbox, std::mt19937_64& random) {
  const bool plausible = random() % 2 == 0;
  const std::size_t begin = plausible ? shm::Geometry::kPage : 0;
  for (std::size_t i = begin; i + 8 <= inbox.size(); i += 8) {
    const std::uint64_t word = plausible && random() % 2 == 0 ? random() % 64 : random();
    std::memcpy(inbox.data() + i, &word, sizeof word);
  }
  if (!plausible) return;
  auto* header = reinterpret_cast<shm::RingHeader*>(inbox.data());
  header->head.store(8 + random() % 512 * 8);
}

TEST(Hostile, a_scribbler_is_dropped_and_the_others_go_on) {
  const Subject subject{"shm", "shm", "", true};
  RecordProperty("seed", std::to_string(seed()));
  std::mt19937_64 seeds(seed());
  BackendOptions options;
  options.message_ring_size = 4096;
  options.payload_slots = 4;
  Side victim(subject, options);
  Side friendly(subject, options);
  const auto friendly_to_victim = friendly.connect(victim);
  ASSERT_TRUE(drive({&victim, &friendly}, [&] { return friendly_to_victim->status().has_value(); }));
  std::size_t corrupt = 0;
  for (int round = 0; round < 40; ++round) {
    const std::uint64_t round_seed = seeds();
    SCOPED_TRACE("seed " + std::to_string(seed()) + ", round " + std::to_string(round));
    Child child([&](Child::Line& line) {
      const std::size_t inherited = mapped_inboxes().size();
      for (const auto& inbox : mapped_inboxes()) ::munmap(inbox.data(), inbox.size());
      if (mapped_inboxes().size() > 0 || inherited == 0) return 4;
      Side side(subject, options);
      const auto to_victim = meet(side, line);
      if (!to_victim) return 2;
      std::mt19937_64 random(round_seed);
      // Until the victim has had enough.
      return drive({&side},
                   [&] {
                     for (const auto& inbox : mapped_inboxes()) scribble(inbox, random);
                     return !to_victim->status()->ok();
                   })
                 ? 0
                 : 3;
    });
    const std::size_t lost = victim.events.lost.size();
    const std::size_t arrived = victim.events.arrived.size();
    auto line = child.line();
    const Bytes address = line.read();
    line.write(victim.backend->address());
    const auto to_child = victim.connect(address);
    ASSERT_TRUE(drive({&victim, &friendly}, [&] { return victim.events.lost.size() > lost; }));
    EXPECT_EQ(victim.events.arrived.size(), arrived + 1);
    if (victim.events.lost.back().reason.code() == ErrorCode::corrupt) ++corrupt;
    victim.events.messages.clear();
    const auto sent = friendly_to_victim->send(bytes_of("alive"), {}, true);
    ASSERT_TRUE(sent.ok());
    ASSERT_TRUE(drive({&victim, &friendly}, [&] { return victim.events.messages.size() == 1; }));
    victim.events.messages.clear();
  }
  EXPECT_GT(corrupt, 20U);
}

TEST(Hostile, nonsense_on_the_socket_ends_that_connection) {
  const Subject subject{"shm", "shm", "", true};
  Side victim(subject);
  const auto address = shm::unpack_address(victim.backend->address());
  ASSERT_TRUE(address.ok());
  std::mt19937_64 random(seed());
  for (int round = 0; round < 200; ++round) {
    const auto socket = shm::connect_to(address->socket);
    ASSERT_TRUE(socket.ok());
    Bytes bytes(1 + random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    // Now and then a message that is right, but not in its place, or too long.
    if (round % 4 == 1) bytes = shm::pack(shm::SocketMessage(shm::ImportRequest{1, 1, 1}));
    if (round % 4 == 2) bytes = shm::pack(shm::SocketMessage(shm::Hello{7, bytes}));
    if (round % 4 == 3) bytes.resize(shm::kMaxSocketMessage + 1);
    ASSERT_TRUE(shm::send_packet(socket->get(), bytes).ok());
    pollfd waited{socket->get(), POLLIN, 0};
    ASSERT_TRUE(drive({&victim}, [&] { return ::poll(&waited, 1, 0) > 0; })) << "the connection is closed";
  }
  EXPECT_TRUE(victim.events.arrived.empty());
  EXPECT_TRUE(victim.events.lost.empty());
}

TEST(Hostile, a_peer_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  const Subject subject{"shm", "shm", "", true};
  Side victim(subject);
  Child child([&](Child::Line& line) {
    if (::seteuid(65534) != 0) return 2;
    Side side(subject);
    Bytes address = line.read();
    // By its address it is refused at once; one that lies about its user meets the socket's credentials.
    const auto honest = side.backend->connect(address);
    if (honest.ok() || honest.error().code() != ErrorCode::permission) return 3;
    auto forged = shm::unpack_address(address);
    forged->user = 65534;
    const auto lying = side.backend->connect(shm::pack(*forged));
    return !lying.ok() && lying.error().code() == ErrorCode::permission ? 0 : 4;
  });
  child.line().write(victim.backend->address());
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace stagewire::conformance
