#include "yardsticks.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "die.hpp"

namespace stagewire::bench {
namespace {

constexpr int kMadviseCollapse = 25;  // MADV_COLLAPSE, Linux 6.1; older headers do not have it

struct Words {
  alignas(64) std::atomic<std::uint32_t> ping;
  alignas(64) std::atomic<std::uint32_t> pong;
};

// `idle` is called now and then while it takes long.
template <typename Idle>
void wait_for(std::atomic<std::uint32_t>& word, std::uint32_t wanted, bool sleep, const Idle& idle) {
  constexpr timespec kNow{.tv_sec = 0, .tv_nsec = 100'000'000};
  constexpr std::uint32_t kOften = 1U << 24U;
  std::uint32_t seen = 0;
  for (std::uint32_t i = 1; (seen = word.load(std::memory_order_acquire)) != wanted; ++i) {
    const bool timed_out =
        sleep && syscall(SYS_futex, &word, FUTEX_WAIT, seen, &kNow, nullptr, 0) != 0 && errno == ETIMEDOUT;
    if (timed_out || (!sleep && i % kOften == 0)) idle();
  }
}

void set(std::atomic<std::uint32_t>& word, std::uint32_t value, bool wake) {
  word.store(value, std::memory_order_release);
  if (wake) syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

std::byte* shared_memory(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("stagewire bench: mmap");
    std::exit(1);
  }
  return static_cast<std::byte*>(memory);
}

// Half of each round trip. The other process is a fork that does nothing but wait and answer.
std::vector<double> one_way(int count, bool sleep) {
  auto* words = reinterpret_cast<Words*>(shared_memory(sizeof(Words)));
  const pid_t this_one = getpid();
  const pid_t other = fork();
  if (other < 0) {
    std::perror("stagewire bench: fork");
    std::exit(1);
  }
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != this_one) _exit(1);  // it was gone before
    take_core(1);
    for (int i = 1; i <= count; ++i) {
      wait_for(words->ping, static_cast<std::uint32_t>(i), sleep, [] {});
      set(words->pong, static_cast<std::uint32_t>(i), sleep);
    }
    _exit(0);
  }
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(count));
  for (int i = 1; i <= count; ++i) {
    const double start = now_us();
    set(words->ping, static_cast<std::uint32_t>(i), sleep);
    wait_for(words->pong, static_cast<std::uint32_t>(i), sleep, [other] {
      if (waitpid(other, nullptr, WNOHANG) == other) die("the yardstick's other process is gone");
    });
    times.push_back((now_us() - start) / 2);
  }
  waitpid(other, nullptr, 0);
  munmap(words, sizeof(Words));
  return times;
}

// A memfd like a pool's, mapped twice: by its owner and, read-only, by the one who copies out of it.
std::byte* pool_like(std::size_t size, int protection) {
  const int fd = memfd_create("stagewire-yardstick", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) != 0) {
    std::perror("stagewire bench: memfd");
    std::exit(1);
  }
  void* owner = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  madvise(owner, size, MADV_HUGEPAGE);
  std::memset(owner, 1, size);
  madvise(owner, size, kMadviseCollapse);
  void* memory = mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  madvise(memory, size, MADV_HUGEPAGE);
  madvise(memory, size, protection == PROT_READ ? MADV_POPULATE_READ : MADV_POPULATE_WRITE);
  munmap(owner, size);
  close(fd);
  return static_cast<std::byte*>(memory);
}

// What the program was started with; the first core taken must not hide the second.
const cpu_set_t& allowed_cores() {
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    return set;
  }();
  return allowed;
}

}  // namespace

AllCores::AllCores() {
  CPU_ZERO(&before_);
  sched_getaffinity(0, sizeof before_, &before_);
  sched_setaffinity(0, sizeof(cpu_set_t), &allowed_cores());
}
AllCores::~AllCores() {
  sched_setaffinity(0, sizeof before_, &before_);
}

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void take_core(int index) {
  const cpu_set_t& allowed = allowed_cores();
  if (CPU_COUNT(&allowed) < 2) return;
  int seen = 0;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || seen++ != index) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

std::vector<double> futex_one_way(int count) {
  return one_way(count, true);
}
std::vector<double> spin_one_way(int count) {
  return one_way(count, false);
}

CopyYardstick::CopyYardstick(std::size_t size, std::size_t sources, std::size_t targets)
    : size_(size),
      sources_(sources),
      targets_(targets),
      source_(pool_like(size * sources, PROT_READ)),
      target_(pool_like(size * targets, PROT_READ | PROT_WRITE)) {}

CopyYardstick::~CopyYardstick() {
  munmap(source_, size_ * sources_);
  munmap(target_, size_ * targets_);
}

// In a process on the receiver's core, while the source was filled on the sender's: lines that another core
// has written cost more than one's own.
double CopyYardstick::gb_per_s(int count) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    std::perror("stagewire bench: pipe");
    std::exit(1);
  }
  const pid_t receiver = fork();
  if (receiver == 0) {
    take_core(1);
    copy(sources_);  // a stream's first payloads are not timed either
    const double start = now_us();
    copy(static_cast<std::size_t>(count));
    const double speed = static_cast<double>(size_) * count / (now_us() - start) / 1e3;
    _exit(write(ends[1], &speed, sizeof speed) == sizeof speed ? 0 : 1);
  }
  close(ends[1]);
  double speed = 0;
  const bool told = read(ends[0], &speed, sizeof speed) == sizeof speed;
  close(ends[0]);
  waitpid(receiver, nullptr, 0);
  if (!told) {
    std::fputs("stagewire bench: the process that copies has failed\n", stderr);
    std::exit(1);
  }
  return speed;
}

void CopyYardstick::copy(std::size_t count) const {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(target_ + i % targets_ * size_, source_ + i % sources_ * size_, size_);
  }
}

}  // namespace stagewire::bench
