// The life of one stage process (the messages: stage_messages.hpp).
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <memory>
#include <new>
#include <system_error>

#include "base/text.hpp"
#include "pipeline/connector_context.hpp"
#include "pipeline/pipelines.hpp"
#include "pipeline/stage_control.hpp"
#include "stagewire/pipeline.hpp"

namespace stagewire {
namespace pipeline {
namespace {

/// How long a stage that has failed stays at most, so that nobody takes its end for the reason of the
/// others'.
constexpr std::chrono::seconds kStayAfterFailure{10};

Result<const StageDefinition*> definition_of(const Assignment& assignment) {
  const auto definition = find_pipeline(assignment.pipeline);
  if (!definition.ok()) return definition.error();
  const auto stages = (*definition)->stages;
  if (assignment.position < stages.size()) return &stages[assignment.position];
  return base::error(ErrorCode::invalid_argument, "the pipeline has ", stages.size(),
                     " stages, none at position ", assignment.position);
}

/// What the plan says of the stage before this one is kept; what it leaves open is what that one has told.
void find_upstream(const ConnectorConfig& plan, const Start& told, Connector& connector) {
  const bool is_open = plan.sender_host.empty() || plan.sender_host == "auto";
  connector.update_sender_info(is_open ? told.upstream_host : plan.sender_host,
                               plan.sender_zmq_port == 0 ? told.upstream_port : plan.sender_zmq_port);
}

/// From Assignment to Finish. The connector is made here and left open: other stages may still read from it.
Status work(StageControl& control, std::unique_ptr<Connector>& connector) {
  const auto assignment = control.wait_for_assignment();
  if (!assignment.ok()) return assignment.error();
  const auto definition = definition_of(*assignment);
  if (!definition.ok()) return definition.error();
  auto created = Connector::create(assignment->connector);
  if (!created.ok()) return created.error();
  connector = std::move(*created);
  control.on_stop([open = connector.get()] { open->close(); });

  const ConnectionInfo info = connector->connection_info();
  if (Status status = control.send(Ready{info.host, info.zmq_port}); !status.ok()) return status;
  const auto start = control.wait_for_start();
  if (!start.ok()) return start.error();
  if (!start->upstream_host.empty()) find_upstream(assignment->connector, *start, *connector);
  if ((*definition)->replay != nullptr) {
    ReplayContext context{*assignment, *connector, control};
    return (*definition)->replay(context);
  }
  ConnectorContext context(*assignment, *connector, control);
  if (Status status = (*definition)->run(context); !status.ok()) return status;
  if (Status status = control.send(context.done()); !status.ok()) return status;
  return control.wait_for_finish();
}

/// The whole life, for the exit status.
int live(int pipeline_fd) {
  // A parent that dies is noticed by the channel too; this is for a stage that hangs.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::fcntl(pipeline_fd, F_SETFD, FD_CLOEXEC) != 0) {
    std::fprintf(stderr, "stagewire: --pipeline-fd is internal: %d is no open descriptor\n", pipeline_fd);
    return 2;
  }
  StageControl control{ControlChannel{base::UniqueFd(pipeline_fd)}};
  std::unique_ptr<Connector> connector;
  const Status status = work(control, connector);
  if (!status.ok()) {
    // Nobody is there to be told when this fails, too: the pipeline is gone.
    static_cast<void>(control.send(Failed{status.error().code(), status.error().message()}));
    control.wait_for_stop(kStayAfterFailure);
  }
  control.on_stop({});
  if (connector != nullptr) connector->close();
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace pipeline

int run_stage_process(int pipeline_fd) {
  try {
    return pipeline::live(pipeline_fd);
  } catch (const std::system_error& failure) {  // a thread, or another thing of the system, cannot be had
    std::fprintf(stderr,
                 "stagewire: %s: the limits of this user (ulimit -u for processes and threads, ulimit -n for "
                 "files) may be too small\n",
                 failure.what());
  } catch (const std::bad_alloc&) {
    std::fputs("stagewire: out of memory\n", stderr);
  }
  return 1;  // what was said are its last words, which the pipeline repeats
}

}  // namespace stagewire
