// The adapter is its two halves.
#include "base/text.hpp"
#include "chunk/receiver.hpp"
#include "chunk/sender.hpp"
#include "stagewire/chunk.hpp"

namespace stagewire {

class ChunkTransferAdapter::Impl {
 public:
  Impl(Connector& used, std::unique_ptr<ChunkProcessor> processor, const ChunkAdapterOptions& options)
      : connector(used), ready(std::make_shared<chunk::ReadySignal>(options.on_ready)), mode(options.mode) {
    const int source = options.source_stage.value_or(options.stage_id - 1);
    const int target = options.target_stage.value_or(options.stage_id + 1);
    const std::string here = base::text(options.stage_id);
    if (source >= 0) {
      receiver = std::make_shared<chunk::Receiver>(
          connector,
          chunk::Receiver::Edge{base::text(source), here, options.mode, options.active_stream_window,
                                options.chunk_timeout},
          ready);
    }
    if (processor) {
      sender = std::make_shared<chunk::Sender>(
          connector, std::move(processor),
          chunk::Sender::Edge{here, base::text(target), options.space_timeout}, ready);
    }
  }
  Status start() const { return sender ? sender->start() : Status(); }
  ~Impl() {
    if (receiver) receiver->stop();
    if (sender) sender->stop();
    ready->close();
  }

  Connector& connector;
  const std::shared_ptr<chunk::ReadySignal> ready;
  const ChunkMode mode;
  std::shared_ptr<chunk::Receiver> receiver;
  std::shared_ptr<chunk::Sender> sender;
  std::vector<chunk::SendFailure> failures;  ///< the last take's, whose ids it handed out
};

namespace {

// Of the key: the stages' names and the chunk's number come to it.
constexpr std::size_t kMaxIdSize = 900;

Status check_ids(std::string_view call, std::string_view internal_id, std::string_view external_id) {
  for (const std::string_view id : {internal_id, external_id}) {
    if (id.empty()) return base::error(ErrorCode::invalid_argument, call, ": a request's id is empty");
    if (id.size() > kMaxIdSize) {
      return base::error(ErrorCode::invalid_argument, call, ": a request's id has ", id.size(), " bytes, ",
                         kMaxIdSize, " are allowed");
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ChunkTransferAdapter>> ChunkTransferAdapter::create(
    Connector& connector, std::unique_ptr<ChunkProcessor> processor, const ChunkAdapterOptions& options) {
  if (options.stage_id < 0) {
    return base::error(ErrorCode::invalid_argument, "stage_id: ", options.stage_id, " is negative");
  }
  for (const auto& other : {options.source_stage, options.target_stage}) {
    if (!other || (*other >= 0 && *other != options.stage_id)) continue;
    return base::error(ErrorCode::invalid_argument, "stage ", options.stage_id,
                       " cannot be connected with stage ", *other);
  }
  if (options.space_timeout.count() < 0 || options.chunk_timeout.count() < 0) {
    return base::error(ErrorCode::invalid_argument, "space_timeout and chunk_timeout must not be negative");
  }
  auto impl = std::make_unique<Impl>(connector, std::move(processor), options);
  if (Status started = impl->start(); !started) return started.error();
  return std::unique_ptr<ChunkTransferAdapter>(new ChunkTransferAdapter(std::move(impl)));
}

ChunkTransferAdapter::ChunkTransferAdapter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ChunkTransferAdapter::~ChunkTransferAdapter() = default;

Status ChunkTransferAdapter::save(const ChunkRequest& request, const Value& output, const StepState& state,
                                  std::shared_ptr<const void> owner) {
  if (Status ok = check_ids("save", request.internal_id, request.external_id); !ok) return ok;
  if (!impl_->sender) {
    return base::error(ErrorCode::invalid_argument, "save of ", request.external_id,
                       ": this stage has no processor, so it sends nothing");
  }
  return impl_->sender->save(request, output, state, std::move(owner));
}

Status ChunkTransferAdapter::flush(Milliseconds timeout) {
  return impl_->sender ? impl_->sender->flush(timeout) : Status();
}

Status ChunkTransferAdapter::load(std::string_view internal_id, std::string_view external_id) {
  if (Status ok = check_ids("load", internal_id, external_id); !ok) return ok;
  if (!impl_->receiver) {
    return base::error(ErrorCode::invalid_argument, "load of ", internal_id,
                       ": this is the first stage, nothing comes here");
  }
  return impl_->receiver->load(internal_id, external_id);
}

void ChunkTransferAdapter::take(std::vector<ChunkEvent>& events) {
  if (impl_->receiver) impl_->receiver->keep_memory(events);
  events.clear();
  impl_->ready->lower();
  impl_->failures.clear();
  if (impl_->sender) {
    while (auto failure = impl_->sender->take_failure()) impl_->failures.push_back(std::move(*failure));
  }
  for (const chunk::SendFailure& failure : impl_->failures) {
    events.push_back({failure.internal_id, true, failure.error});
  }
  if (impl_->receiver) impl_->receiver->take(events);
}

bool ChunkTransferAdapter::wait(Milliseconds timeout) {
  return impl_->ready->wait(impl_->connector, timeout);
}

void ChunkTransferAdapter::finish(std::string_view internal_id, std::string_view external_id) {
  if (impl_->sender) impl_->sender->finish(external_id);
  if (impl_->receiver) impl_->receiver->forget(internal_id);
}

void ChunkTransferAdapter::abort(std::string_view internal_id, std::string_view external_id,
                                 std::string_view reason) {
  if (impl_->sender) impl_->sender->abort(external_id, reason);
  if (impl_->receiver) impl_->receiver->abort(internal_id, external_id);
}

ChunkMode ChunkTransferAdapter::mode() const {
  return impl_->mode;
}

bool ChunkTransferAdapter::receives() const {
  return impl_->receiver != nullptr;
}

ChunkCounters ChunkTransferAdapter::counters() const {
  ChunkCounters counters;
  if (impl_->sender) impl_->sender->count(counters);
  if (impl_->receiver) impl_->receiver->count(counters);
  return counters;
}

}  // namespace stagewire
