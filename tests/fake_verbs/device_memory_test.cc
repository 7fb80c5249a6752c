// Memory of a GPU, simulated runtimes of both vendors.
#include <gmock/gmock.h>

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

#include "fake_verbs/fixture.hpp"

namespace stagewire::fake_verbs {
namespace {

using ::testing::HasSubstr;

#if __has_include(<cuda.h>)
// What src/memory/dma_buffer.cc writes down of it.
static_assert(sizeof(CUdeviceptr) == sizeof(unsigned long long) && std::is_same_v<CUdevice, int>);
static_assert(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD == 1 && CUDA_SUCCESS == 0);
static_assert(std::is_same_v<decltype(&cuMemGetHandleForAddressRange),
                             CUresult (*)(void*, unsigned long long, std::size_t, CUmemRangeHandleType,
                                          unsigned long long)>);
static_assert(std::is_same_v<decltype(&cuMemGetAddressRange),
                             CUresult (*)(unsigned long long*, std::size_t*, unsigned long long)>);
static_assert(std::is_same_v<decltype(&cuDeviceGet), CUresult (*)(int*, int)>);
static_assert(std::is_pointer_v<CUcontext>);
#endif

/// The library of both vendors, and one allocation in it.
class Gpu {
 public:
  explicit Gpu(std::size_t size) : library_(::dlopen(FAKE_GPU_LIBRARY, RTLD_NOW | RTLD_LOCAL)) {
    data_ = static_cast<std::byte*>(look<void* (*)(std::size_t)>("fake_gpu_allocate")(size));
  }
  ~Gpu() { look<void (*)(void*)>("fake_gpu_free")(data_); }
  std::byte* data() const { return data_; }
  int contexts() const { return look<int (*)()>("fake_gpu_contexts")(); }
  MemoryRegion region(std::size_t offset, std::size_t size) const {
    MemoryRegion region;
    region.data = data_ + offset;
    region.size = size;
    region.kind = MemoryKind::gpu;
    region.device = 0;
    return region;
  }

 private:
  template <typename Function>
  Function look(const char* name) const {
    return reinterpret_cast<Function>(::dlsym(library_, name));
  }
  void* const library_;
  std::byte* data_ = nullptr;
};

constexpr std::size_t kSize = 1 << 20;

class FakeVerbsDeviceMemory : public FakeVerbs {
 protected:
  void SetUp() override {
    FakeVerbs::SetUp();
    choose(nullptr);
    control().set_device_memory(gpu_.data(), kSize);
  }
  void TearDown() override {
    FakeVerbs::TearDown();
    ::unsetenv("STAGEWIRE_LIBCUDA");
    ::unsetenv("STAGEWIRE_LIBHSA");
    EXPECT_EQ(gpu_.contexts(), 0);
  }
  /// The vendor whose runtime is there.
  static void choose(const char* variable) {
    ::setenv("STAGEWIRE_LIBCUDA", "no-libcuda.so", 1);
    ::setenv("STAGEWIRE_LIBHSA", "no-libhsa.so", 1);
    if (variable != nullptr) ::setenv(variable, FAKE_GPU_LIBRARY, 1);
  }
  void fill(std::byte value) { std::memset(gpu_.data(), static_cast<int>(value), kSize); }

  Gpu gpu_{kSize};
};

// R04: the region is a part of an allocation, at an address that is no page's.
TEST_F(FakeVerbsDeviceMemory, R04_a_part_of_an_allocation_is_written_and_read_as_a_dma_buffer) {
  for (const char* vendor : {"STAGEWIRE_LIBCUDA", "STAGEWIRE_LIBHSA"}) {
    choose(vendor);
    connect();
    fill(std::byte{9});
    constexpr std::size_t kOffset = 12'345;
    const Memory host(kSize);
    host.fill(1);
    const auto local = a_->add(host.region());
    const auto remote = b_->add(gpu_.region(kOffset, 500'000), Access::remote_read_write);
    const auto imported = import(*remote);
    const Segment there[] = {{0, 0, 500'000}};
    post(request_of(1, Operation::write, *local, *imported, there));
    ASSERT_TRUE(until([&] { return a_->events.completions.size() == 1; }));
    ASSERT_TRUE(a_->events.completions[0].status.ok()) << vendor;
    EXPECT_EQ(std::memcmp(gpu_.data() + kOffset, host.bytes().data(), 500'000), 0);
    EXPECT_EQ(gpu_.data()[kOffset - 1], std::byte{9});
    EXPECT_EQ(gpu_.data()[kOffset + 500'000], std::byte{9});
    // And the other way round: from the device of the one that reads.
    const auto here = a_->add(gpu_.region(600'000, 4096));
    const auto theirs = b_->add(host.region(), Access::remote_read);
    const auto host_import = import(*theirs);
    const Segment back[] = {{0, 77, 4096}};
    post(request_of(2, Operation::read, *here, *host_import, back));
    ASSERT_TRUE(until([&] { return a_->events.completions.size() == 2; }));
    ASSERT_TRUE(a_->events.completions[1].status.ok()) << vendor;
    EXPECT_EQ(std::memcmp(gpu_.data() + 600'000, host.bytes().data() + 77, 4096), 0);
    to_b_.reset();
  }
}

TEST_F(FakeVerbsDeviceMemory, without_dma_buffers_the_address_is_registered_where_a_module_allows_it) {
  control().set_device_memory(nullptr, 0);
  make_sides();
  EXPECT_TRUE(a_->backend->register_region(gpu_.region(0, kSize), Access::remote_read).ok());
  choose("STAGEWIRE_LIBCUDA");
  control().fail_call("reg_dmabuf_mr", 1, EOPNOTSUPP);
  EXPECT_TRUE(a_->backend->register_region(gpu_.region(0, kSize), Access::remote_read).ok());
}

TEST_F(FakeVerbsDeviceMemory, R24_what_stands_in_the_way_is_named) {
  make_sides();
  const auto neither = a_->backend->register_region(gpu_.region(0, kSize), Access::remote_read);
  ASSERT_FALSE(neither.ok());
  EXPECT_EQ(neither.error().code(), ErrorCode::unsupported);
  EXPECT_THAT(neither.error().message(), HasSubstr("no-libcuda.so"));
  EXPECT_THAT(neither.error().message(), HasSubstr("no-libhsa.so"));
  EXPECT_THAT(neither.error().message(), HasSubstr("peermem"));
  for (const char* vendor : {"STAGEWIRE_LIBCUDA", "STAGEWIRE_LIBHSA"}) {
    choose(vendor);
    control().fail_call("reg_dmabuf_mr", 1, EOPNOTSUPP);
    const auto refused = a_->backend->register_region(gpu_.region(0, kSize), Access::remote_read);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message(), HasSubstr("registering a dma-buf"));
    auto beyond = gpu_.region(kSize - 100, 200);
    EXPECT_FALSE(a_->backend->register_region(beyond, Access::remote_read).ok());
  }
  auto nowhere = gpu_.region(0, kSize);
  nowhere.kind = MemoryKind::unknown;
  EXPECT_FALSE(a_->backend->register_region(nowhere, Access::remote_read).ok());
}

}  // namespace
}  // namespace stagewire::fake_verbs
