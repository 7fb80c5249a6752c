// Two stages in one process: one puts a tensor, the other gets it. README.md shows the middle of this file.
#include <array>
#include <cstdio>
#include <stagewire/connector.hpp>

using namespace stagewire;
using namespace std::chrono_literals;

static int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

int main() {
  constexpr std::uint64_t kPool = 64 << 20;

  // [README]
  auto talker =
      Connector::create({.stage_id = 0, .role = Role::sender, .zmq_port = 0, .memory_pool_size = kPool});
  if (!talker) return fail(talker.error());

  const ConnectionInfo upstream = (*talker)->connection_info();
  auto vocoder = Connector::create({.stage_id = 1,
                                    .role = Role::receiver,
                                    .zmq_port = 0,
                                    .memory_pool_size = kPool,
                                    .sender_host = upstream.host,
                                    .sender_zmq_port = upstream.zmq_port});
  if (!vocoder) return fail(vocoder.error());

  const std::array<float, 6> frame{1, 2, 3, 4, 5, 6};
  const TensorView tensor{
      .dtype = DType::float32, .shape = {2, 3}, .data = reinterpret_cast<const std::byte*>(frame.data())};
  const auto put = (*talker)->put("0", "1", "chat-7_0", tensor);
  if (!put) return fail(put.error());

  auto got = (*vocoder)->get("0", "1", "chat-7_0", {.timeout = 5s});
  if (!got) return fail(got.error());
  std::printf("%llu bytes by %s\n", static_cast<unsigned long long>(got->size()),
              std::string(to_string(got->route())).c_str());
  // The bytes stay in place until `got` is destroyed: no copy was made for it to look at them.
  // [README]
  return got->tensor()->shape == tensor.shape ? 0 : 1;
}
