#include "pipeline/speech/stages.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "pipeline/speech/chunks.hpp"
#include "pipeline/speech/frame_reader.hpp"
#include "pipeline/speech/wav_writer.hpp"

namespace stagewire::pipeline::speech {
namespace {

constexpr std::size_t kReadFrames = 5;  // 100 ms to a chunk of the reader
constexpr std::int64_t kMaxChunkFrames = 10'000;

Result<std::size_t> chunk_size(const std::map<std::string, std::int64_t>& options, const std::string& key,
                               std::int64_t least, std::size_t otherwise) {
  const auto found = options.find(key);
  if (found == options.end() || (found->second == 0 && least == 0)) return otherwise;
  if (found->second < least || found->second > kMaxChunkFrames) {
    return base::error(ErrorCode::invalid_argument, key, " is ", found->second, ", it must be ", least,
                       " to ", kMaxChunkFrames);
  }
  return static_cast<std::size_t>(found->second);
}

/// Gathers packets and sends them in chunks of the configured sizes.
class ChunkedSender {
 public:
  ChunkedSender(StageContext& context, const StreamInfo& stream, ChunkSizes sizes)
      : context_(context), stream_(stream), next_size_(sizes.first), later_size_(sizes.others) {}

  std::vector<Packet>& pending() { return pending_; }

  /// Sends every chunk that is full; with `finished` also what is left, as the stream's last chunk.
  Status send(bool finished) {
    while (pending_.size() >= next_size_ && !(finished && pending_.size() == next_size_)) {
      if (Status status = send_first(next_size_, false); !status.ok()) return status;
      next_size_ = later_size_;
    }
    return finished ? send_first(pending_.size(), true) : Status();
  }

 private:
  Status send_first(std::size_t count, bool finished) {
    const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(count);
    const CodeChunk chunk{stream_, finished, {pending_.begin(), end}};
    if (Status status = context_.send(to_payload(chunk)); !status.ok()) return status;
    pending_.erase(pending_.begin(), end);
    return {};
  }

  StageContext& context_;
  StreamInfo stream_;
  std::size_t next_size_;
  std::size_t later_size_;
  std::vector<Packet> pending_;
};

base::Duration seconds(double count) {
  return std::chrono::duration_cast<base::Duration>(std::chrono::duration<double>(count));
}

Error changed(const StreamInfo& stream) {
  return base::error(ErrorCode::corrupt, "the stream changed to ", stream.format.sample_rate, " Hz, ",
                     stream.format.channels, " channels, ", stream.sample_count, " samples");
}

bool same_stream(const StreamInfo& a, const StreamInfo& b) {
  return a.format == b.format && a.sample_count == b.sample_count;
}

}  // namespace

Result<ChunkSizes> chunk_sizes(const std::map<std::string, std::int64_t>& options) {
  const auto others = chunk_size(options, "codec_chunk_frames", 1, ChunkSizes{}.others);
  if (!others.ok()) return others.error();
  const auto first = chunk_size(options, "initial_codec_chunk_frames", 0, *others);
  if (!first.ok()) return first.error();
  return ChunkSizes{*first, *others};
}

Status read_speech(StageContext& context) {
  auto wav = WavReader::open(context.input());
  if (!wav.ok()) return wav.error();
  FrameReader reader(std::move(*wav));
  const AudioFormat& format = reader.format();
  FrameChunk chunk{{format, reader.sample_count(), 0}, false, {}};
  std::uint64_t samples = 0;
  while (!chunk.finished) {
    const auto frames = reader.next(kReadFrames, chunk.values);
    if (!frames.ok()) return frames.error();
    chunk.finished = reader.at_end();
    samples += *frames * format.frame_samples();
    if (Status status = context.pace(seconds(format.seconds(samples))); !status.ok()) return status;
    if (Status status = context.send(to_payload(chunk)); !status.ok()) return status;
    context.report_progress(format.seconds(std::min(samples, chunk.stream.sample_count)));
  }
  return {};
}

Status encode_speech(StageContext& context) {
  const auto sizes = chunk_sizes(context.chunk_options());
  if (!sizes.ok()) return sizes.error();
  std::optional<SpeechEncoder> encoder;
  std::optional<ChunkedSender> sender;
  std::uint64_t samples = 0;
  for (bool finished = false; !finished;) {
    const auto received = context.receive();
    if (!received.ok()) return received.error();
    const auto chunk = read_frame_chunk(received->payload);
    if (!chunk.ok()) return chunk.error();
    if (!encoder) {
      auto made = SpeechEncoder::create(chunk->stream.format, chunk->stream.sample_count);
      if (!made.ok()) return made.error();
      encoder = std::move(*made);
      sender.emplace(context, encoder->stream(), *sizes);
    }
    if (!same_stream(chunk->stream, encoder->stream())) return changed(chunk->stream);
    if (Status status = encoder->encode(chunk->values, sender->pending()); !status.ok()) return status;
    finished = chunk->finished;
    if (finished) {
      if (Status status = encoder->finish(sender->pending()); !status.ok()) return status;
    }
    if (Status status = sender->send(finished); !status.ok()) return status;
    samples += chunk->values.size() / static_cast<std::size_t>(chunk->stream.format.channels);
    context.report_progress(chunk->stream.format.seconds(std::min(samples, chunk->stream.sample_count)));
  }
  return {};
}

Status decode_speech(StageContext& context) {
  std::optional<SpeechDecoder> decoder;
  std::optional<WavWriter> writer;
  std::vector<std::int16_t> values;
  for (bool finished = false; !finished;) {
    const auto received = context.receive();
    if (!received.ok()) return received.error();
    const auto chunk = read_code_chunk(received->payload);
    if (!chunk.ok()) return chunk.error();
    if (!decoder) {
      auto made = SpeechDecoder::create(chunk->stream);
      if (!made.ok()) return made.error();
      decoder = std::move(*made);
      auto begun = WavWriter::begin(context.output(), chunk->stream.format);
      if (!begun.ok()) return begun.error();
      writer = *begun;
    }
    if (!same_stream(chunk->stream, decoder->stream())) return changed(chunk->stream);
    values.clear();
    for (const auto packet : chunk->packets) {
      if (Status status = decoder->decode(packet, values); !status.ok()) return status;
    }
    if (Status status = writer->append(values); !status.ok()) return status;
    context.report_progress(chunk->stream.format.seconds(writer->samples_written()));
    finished = chunk->finished;
  }
  if (Status status = decoder->finish(); !status.ok()) return status;
  return writer->finish();
}

}  // namespace stagewire::pipeline::speech
