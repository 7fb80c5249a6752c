// What code2wav gets from the talker.
#include <algorithm>

#include "base/text.hpp"
#include "pipeline/omni/far_end.hpp"

namespace stagewire::pipeline::omni {
namespace {

class TalkerFarEnd final : public FarEnd {
 public:
  TalkerFarEnd(const Contents& contents, const ExpectedStream& expected, const chunk::WindowSizes& sizes)
      : contents_(contents),
        expected_(expected),
        reader_(contents.model().codec, sizes, expected.path, expected.external_id),
        frame_(static_cast<std::size_t>(contents.model().codec.codebook_count)) {}

  Status take(const Value& payload) override {
    const std::int64_t first = reader_.frame_count();
    const auto chunk = reader_.take(payload);
    if (!chunk.ok()) return chunk.error();
    for (std::int64_t i = 0; first + i < reader_.frame_count(); ++i) {
      contents_.fill_frame(expected_.request, first + i, frame_);
      const auto codes = chunk->codes.subspan(static_cast<std::size_t>(i) * frame_.size(), frame_.size());
      if (!std::equal(frame_.begin(), frame_.end(), codes.begin())) {
        return base::error(ErrorCode::corrupt, expected_.external_id, ": frame ", first + i,
                           " has not the codes that the talker made");
      }
    }
    if (finished() && reader_.frame_count() != expected_.frame_count) {
      return base::error(ErrorCode::corrupt, expected_.external_id, ": ended after ", reader_.frame_count(),
                         " frames, the talker made ", expected_.frame_count);
    }
    return {};
  }
  bool finished() const override { return reader_.finished(); }
  std::int64_t received() const override { return reader_.frame_count(); }

 private:
  const Contents& contents_;
  const ExpectedStream expected_;
  chunk::CodeReader reader_;
  std::vector<std::int64_t> frame_;
};

}  // namespace

std::unique_ptr<FarEnd> make_talker_far_end(const Contents& contents, const ExpectedStream& expected,
                                            const chunk::WindowSizes& sizes) {
  return std::make_unique<TalkerFarEnd>(contents, expected, sizes);
}

}  // namespace stagewire::pipeline::omni
