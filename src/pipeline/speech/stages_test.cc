// The three stages, each over a context without processes: their chunks travel encoded, as they do over a
// connector.
#include "pipeline/speech/stages.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "base/unique_fd.hpp"
#include "pipeline/speech/chunks.hpp"
#include "pipeline/speech/reference.hpp"
#include "support/temp_dir.hpp"
#include "support/wav_bytes.hpp"

namespace stagewire::pipeline::speech {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

/// Everything that was sent lies in `sent`, everything that is to be received in `received`.
class BufferContext final : public StageContext {
 public:
  const std::string& input() const override { return input_file; }
  int output() const override { return output_file; }
  const std::map<std::string, std::int64_t>& chunk_options() const override { return options; }

  Result<Chunk> receive() override {
    if (received.empty()) return Error(ErrorCode::unavailable, "nothing more comes");
    const auto bytes = std::make_shared<const Bytes>(std::move(received.front()));
    received.pop_front();
    auto payload = decode(*bytes);
    if (!payload.ok()) return payload.error();
    return Chunk{std::move(*payload), bytes};
  }
  Status send(const Value& payload) override {
    const auto size = encoded_size(payload);
    if (!size.ok()) return size.error();
    Bytes bytes(*size);
    const auto written = encode(payload, bytes);
    if (!written.ok()) return written.error();
    sent.push_back(std::move(bytes));
    return {};
  }
  Status pace(base::Duration since_first) override {
    paced.push_back(since_first);
    return {};
  }
  void report_progress(double audio_seconds) override { progress.push_back(audio_seconds); }

  std::string input_file;
  int output_file = -1;
  std::map<std::string, std::int64_t> options;
  std::deque<Bytes> received;
  std::deque<Bytes> sent;
  std::vector<base::Duration> paced;
  std::vector<double> progress;
};

std::string example() {
  return std::string(STAGEWIRE_SOURCE_DIR) + "/examples/speech.wav";
}

std::deque<Bytes> frames_of(const std::string& input) {
  BufferContext reader;
  reader.input_file = input;
  const Status status = read_speech(reader);
  EXPECT_TRUE(status.ok()) << status.error().to_string();
  return reader.sent;
}

std::deque<Bytes> codes_of(std::deque<Bytes> frames, const std::map<std::string, std::int64_t>& options) {
  BufferContext encoder;
  encoder.received = std::move(frames);
  encoder.options = options;
  const Status status = encode_speech(encoder);
  EXPECT_TRUE(status.ok()) << status.error().to_string();
  return encoder.sent;
}

CodeChunk parse(const Bytes& bytes) {
  auto payload = decode(bytes);
  auto chunk = read_code_chunk(*payload);
  EXPECT_TRUE(chunk.ok()) << chunk.error().to_string();
  return *chunk;
}

TEST(SpeechStages, together_write_what_one_process_makes_bit_for_bit) {
  const test::TempDir dir;
  BufferContext decoder;
  decoder.received =
      codes_of(frames_of(example()), {{"codec_chunk_frames", 25}, {"initial_codec_chunk_frames", 5}});
  const base::UniqueFd file(::open(dir.file("out.wav").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  decoder.output_file = file.get();
  const Status status = decode_speech(decoder);
  ASSERT_TRUE(status.ok()) << status.error().to_string();
  EXPECT_EQ(test::read_file(dir.file("out.wav")),
            test::wav_file({}, test::pcm16_bytes(*code_in_one_process(example()))));
}

TEST(SpeechStages, the_reader_sends_five_frames_a_chunk_and_keeps_the_pace) {
  const test::TempDir dir;
  test::write_file(dir.file("a.wav"),
                   test::wav_file({}, test::pcm16_bytes(std::vector<std::int16_t>(7 * 320 + 1))));
  BufferContext reader;
  reader.input_file = dir.file("a.wav");
  ASSERT_TRUE(read_speech(reader).ok());
  ASSERT_EQ(reader.sent.size(), 2U);
  const auto first = read_frame_chunk(*decode(reader.sent[0]));
  const auto last = read_frame_chunk(*decode(reader.sent[1]));
  ASSERT_TRUE(first.ok() && last.ok());
  EXPECT_EQ(first->values.size(), 5U * 320);
  EXPECT_FALSE(first->finished);
  EXPECT_EQ(last->values.size(), 3U * 320) << "the last frame is filled up";
  EXPECT_TRUE(last->finished);
  EXPECT_EQ(first->stream.sample_count, 7U * 320 + 1);
  EXPECT_THAT(reader.paced,
              ::testing::ElementsAre(std::chrono::milliseconds(100), std::chrono::milliseconds(160)));
  EXPECT_DOUBLE_EQ(reader.progress.back(), (7 * 320 + 1) / 16'000.0);
}

TEST(SpeechStages, the_encoder_cuts_chunks_as_configured) {
  const auto frames = frames_of(example());
  const auto sizes = [&](const std::map<std::string, std::int64_t>& options) {
    std::vector<std::size_t> result;
    const auto chunks = codes_of(frames, options);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const CodeChunk chunk = parse(chunks[i]);
      EXPECT_EQ(chunk.finished, i + 1 == chunks.size());
      result.push_back(chunk.packets.size());
    }
    return result;
  };
  // 234402 samples and a lookahead of 104 make 733 codec frames.
  EXPECT_THAT(sizes({{"codec_chunk_frames", 300}, {"initial_codec_chunk_frames", 5}}),
              ::testing::ElementsAre(5, 300, 300, 128));
  EXPECT_THAT(sizes({{"codec_chunk_frames", 364}, {"initial_codec_chunk_frames", 5}}),
              ::testing::ElementsAre(5, 364, 364));
  EXPECT_THAT(sizes({{"codec_chunk_frames", 10'000}}), ::testing::ElementsAre(733));
  EXPECT_EQ(sizes({}).front(), 25U);
}

TEST(SpeechStages, chunk_sizes_that_are_none_are_refused) {
  EXPECT_FALSE(chunk_sizes({{"codec_chunk_frames", 0}}).ok());
  EXPECT_FALSE(chunk_sizes({{"codec_chunk_frames", -1}}).ok());
  EXPECT_FALSE(chunk_sizes({{"codec_chunk_frames", 1'000'000}}).ok());
  EXPECT_FALSE(chunk_sizes({{"initial_codec_chunk_frames", -1}}).ok());
  EXPECT_EQ(chunk_sizes({{"codec_chunk_frames", 7}, {"initial_codec_chunk_frames", 0}})->first, 7U);
  EXPECT_EQ(chunk_sizes({})->others, 25U);
}

TEST(SpeechStages, a_stream_that_breaks_off_is_an_error) {
  auto frames = frames_of(example());
  frames.resize(3);
  BufferContext encoder;
  encoder.received = frames;
  EXPECT_EQ(encode_speech(encoder).error().code(), ErrorCode::unavailable);

  BufferContext decoder;
  const test::TempDir dir;
  const base::UniqueFd file(::open(dir.file("out.wav").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  decoder.output_file = file.get();
  decoder.received = codes_of(frames_of(example()), {});
  decoder.received.erase(decoder.received.begin() + 2);  // as if a chunk had been lost
  const Status status = decode_speech(decoder);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("the stream ended after"));
}

TEST(SpeechStages, payloads_that_are_no_chunks_are_corrupt) {
  const Value meta = Value::Map{
      {"finished", true}, {"sample_rate", 16'000}, {"channels", 1}, {"sample_count", 320}, {"lookahead", 0}};
  const std::vector<float> values(320);
  TensorView tensor{DType::float32, {1, 320}, std::as_bytes(std::span(values)).data(), {}};
  EXPECT_TRUE(read_frame_chunk(Value::Map{{"audio", tensor}, {"meta", meta}}).ok());
  EXPECT_TRUE(
      read_code_chunk(Value::Map{{"codes", Value::Map{{"audio", Value::List{}}}}, {"meta", meta}}).ok());

  TensorView wide = tensor;
  wide.shape = {2, 160};
  const std::vector<Value> bad{
      Value(),
      Value::Map{},
      Value::Map{{"meta", meta}},
      Value::Map{{"audio", tensor}},
      Value::Map{{"audio", 7}, {"codes", 7}, {"meta", meta}},
      Value::Map{{"audio", wide}, {"codes", Value::Map{{"audio", Value::List{7}}}}, {"meta", meta}}};
  for (const Value& payload : bad) {
    EXPECT_EQ(read_frame_chunk(payload).error().code(), ErrorCode::corrupt);
    EXPECT_EQ(read_code_chunk(payload).error().code(), ErrorCode::corrupt);
  }
}

}  // namespace
}  // namespace stagewire::pipeline::speech
