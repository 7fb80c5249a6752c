#include "stagewire/chunk.hpp"

#include "connector.hpp"
#include "values.hpp"

namespace stagewire::python {
namespace {

using std::string_view;
using Ids = std::vector<std::int64_t>;

/// A payload that the next call would change, as objects that may be kept: encoded once, its tensors are
/// views of that.
nb::object kept(const Value& payload, Framework framework) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(value_or_raise(encoded_size(payload)));
  value_or_raise(encode(payload, *bytes));
  const Value decoded = value_or_raise(decode(*bytes));
  return export_value(decoded, bytes, framework, true);
}

ChunkProcessorOptions options_of(int chunk_frames, int left_context_frames, int initial_frames) {
  return {.codec_chunk_frames = chunk_frames,
          .codec_left_context_frames = left_context_frames,
          .initial_codec_chunk_frames = initial_frames};
}

/// One thread at a time, as the processor wants it: calls hold the GIL.
class Processor {
 public:
  Processor(string_view name, int chunk_frames, int left_context_frames, int initial_frames)
      : processor_(value_or_raise(
            make_chunk_processor(name, options_of(chunk_frames, left_context_frames, initial_frames)))) {}

  nb::object process(string_view external_id, nb::handle output, bool terminal, string_view internal_id,
                     const Ids& prompt_ids, const Ids& output_ids, bool resumable, string_view speaker,
                     string_view language, string_view tensors) {
    const HeldValue held = import_value(output);
    const ChunkRequest request{.internal_id = internal_id.empty() ? external_id : internal_id,
                               .external_id = external_id,
                               .prompt_ids = prompt_ids,
                               .output_ids = output_ids,
                               .resumable = resumable,
                               .speaker = speaker,
                               .language = language};
    Value* const payload = value_or_raise(processor_->process(request, held.value, terminal));
    return payload == nullptr ? nb::none() : kept(*payload, framework_of(tensors));
  }
  void end_segment(string_view external_id) { processor_->end_segment(external_id); }
  void forget(string_view external_id) { processor_->forget(external_id); }

 private:
  std::unique_ptr<ChunkProcessor> processor_;
};

/// The connector outlives the adapter.
struct OpenAdapter {
  std::shared_ptr<Connector> connector;
  std::unique_ptr<ChunkTransferAdapter> adapter;

  OpenAdapter(std::shared_ptr<Connector> on, std::unique_ptr<ChunkTransferAdapter> made)
      : connector(std::move(on)), adapter(std::move(made)) {}
  OpenAdapter(OpenAdapter&&) = default;
  ~OpenAdapter() {
    if (adapter) without_gil([this] { adapter.reset(); });
  }
};

std::unique_ptr<OpenAdapter> create(const OpenConnector& connector, string_view processor, int stage_id,
                                    string_view mode, const ChunkProcessorOptions& frames,
                                    std::size_t active_stream_window, double chunk_timeout) {
  if (mode != "ar" && mode != "generation") {
    throw Raised(
        Error(ErrorCode::invalid_argument, "mode: " + std::string(mode) + " is none of ar, generation"));
  }
  std::unique_ptr<ChunkProcessor> made;
  if (!processor.empty()) made = value_or_raise(make_chunk_processor(processor, frames));
  ChunkAdapterOptions options;
  options.stage_id = stage_id;
  options.mode = mode == "ar" ? ChunkMode::ar : ChunkMode::generation;
  options.active_stream_window = active_stream_window;
  options.chunk_timeout = milliseconds(chunk_timeout);
  auto adapter = value_or_raise(without_gil(
      [&] { return ChunkTransferAdapter::create(*connector.connector, std::move(made), options); }));
  return std::make_unique<OpenAdapter>(connector.connector.get(), std::move(adapter));
}

void save(const OpenAdapter& self, string_view external_id, nb::handle output, bool finished,
          bool segment_finished, std::int64_t confirmed_tokens, string_view internal_id,
          const Ids& prompt_ids, const Ids& output_ids, bool resumable, string_view speaker,
          string_view language) {
  const HeldValue held = import_value(output);
  const ChunkRequest request{.internal_id = internal_id.empty() ? external_id : internal_id,
                             .external_id = external_id,
                             .prompt_ids = prompt_ids,
                             .output_ids = output_ids,
                             .resumable = resumable,
                             .speaker = speaker,
                             .language = language};
  const StepState state{
      .finished = finished, .segment_finished = segment_finished, .confirmed_tokens = confirmed_tokens};
  // Without an owner the tensors are copied, so that no thread of the library ever has to drop a Python
  // object.
  raise_if_failed(without_gil([&] { return self.adapter->save(request, held.value, state); }));
}

// The events as dictionaries; a chunk's payload keeps its delivery.
nb::list take(const OpenAdapter& self, string_view tensors) {
  const Framework framework = framework_of(tensors);
  std::vector<ChunkEvent> events;
  without_gil([&] { self.adapter->take(events); });
  nb::list result;
  for (ChunkEvent& event : events) {
    nb::dict entry;
    entry["internal_id"] = std::string(event.internal_id);
    entry["sending"] = event.sending;
    if (event.chunk) {
      entry["index"] = event.chunk->index;
      entry["finished"] = event.chunk->finished;
      entry["segment_finished"] = event.chunk->segment_finished;
      const auto chunk = std::make_shared<Chunk>(std::move(*event.chunk));
      entry["payload"] = export_value(chunk->payload, chunk, framework);
    } else {
      entry["error"] = event.chunk.error().to_string();
    }
    result.append(entry);
  }
  return result;
}

void bind_processor(nb::module_& module) {
  nb::class_<Processor>(module, "ChunkProcessor",
                        "Turns what a stage's model made in one step into the next stage's next chunk; "
                        "docs/chunk-path.md has the names.")
      .def(nb::init<string_view, int, int, int>(), nb::arg("name"), nb::kw_only(),
           nb::arg("codec_chunk_frames") = 25, nb::arg("codec_left_context_frames") = 25,
           nb::arg("initial_codec_chunk_frames") = 0)
      .def("process", &Processor::process, nb::arg("external_id"), nb::arg("output").none(),
           nb::arg("terminal"), nb::kw_only(), nb::arg("internal_id") = "", nb::arg("prompt_ids") = Ids(),
           nb::arg("output_ids") = Ids(), nb::arg("resumable") = false, nb::arg("speaker") = "",
           nb::arg("language") = "", nb::arg("tensors") = "auto",
           "The chunk's payload, or None when there is nothing to send yet.")
      .def("end_segment", &Processor::end_segment, nb::arg("external_id"))
      .def("forget", &Processor::forget, nb::arg("external_id"));
}

}  // namespace

void bind_chunks(nb::module_& module) {
  bind_processor(module);
  nb::class_<OpenAdapter>(module, "ChunkTransferAdapter",
                          "One stage's end of its two edges: chunks of many requests, each in order.")
      .def(nb::new_([](const OpenConnector& connector, string_view processor, int stage_id, string_view mode,
                       int chunk_frames, int left_context_frames, int initial_frames, std::size_t window,
                       double chunk_timeout) {
             return create(connector, processor, stage_id, mode,
                           options_of(chunk_frames, left_context_frames, initial_frames), window,
                           chunk_timeout);
           }),
           nb::arg("connector"), nb::arg("processor") = "", nb::kw_only(), nb::arg("stage_id") = 0,
           nb::arg("mode") = "ar", nb::arg("codec_chunk_frames") = 25,
           nb::arg("codec_left_context_frames") = 25, nb::arg("initial_codec_chunk_frames") = 0,
           nb::arg("active_stream_window") = 0, nb::arg("chunk_timeout") = 300.0)
      .def("save", save, nb::arg("external_id"), nb::arg("output").none(), nb::kw_only(),
           nb::arg("finished") = false, nb::arg("segment_finished") = false, nb::arg("confirmed_tokens") = 0,
           nb::arg("internal_id") = "", nb::arg("prompt_ids") = Ids(), nb::arg("output_ids") = Ids(),
           nb::arg("resumable") = false, nb::arg("speaker") = "", nb::arg("language") = "",
           "Queues what a step made.")
      .def(
          "flush",
          [](const OpenAdapter& self, double timeout) {
            raise_if_failed(without_gil([&] { return self.adapter->flush(milliseconds(timeout)); }));
          },
          nb::arg("timeout"), "Waits until everything that was saved has been handed to the connector.")
      .def(
          "load",
          [](const OpenAdapter& self, string_view internal_id, string_view external_id) {
            raise_if_failed(without_gil([&] { return self.adapter->load(internal_id, external_id); }));
          },
          nb::arg("internal_id"), nb::arg("external_id"),
          "Asks for the request's next chunk; take() will have it.")
      .def("take", take, nb::arg("tensors") = "auto",
           "What has become of requests since the last call, errors first.",
           nb::sig("def take(self, tensors: str = 'auto') -> list[dict[str, typing.Any]]"))
      .def(
          "wait",
          [](const OpenAdapter& self, double timeout) {
            return without_gil([&] { return self.adapter->wait(milliseconds(timeout)); });
          },
          nb::arg("timeout"), "Waits until take() has something.")
      .def(
          "finish",
          [](const OpenAdapter& self, string_view internal_id, string_view external_id) {
            without_gil([&] { self.adapter->finish(internal_id, external_id); });
          },
          nb::arg("internal_id"), nb::arg("external_id"))
      .def(
          "abort",
          [](const OpenAdapter& self, string_view internal_id, string_view external_id, string_view reason) {
            without_gil([&] { self.adapter->abort(internal_id, external_id, reason); });
          },
          nb::arg("internal_id"), nb::arg("external_id"), nb::arg("reason"));
}

}  // namespace stagewire::python
