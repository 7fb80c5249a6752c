#include "backends/rdma/mori/control.hpp"

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/text.hpp"

namespace stagewire::backends::rdma::mori {

Result<std::unique_ptr<Control>> Control::create(const std::string& host, int port, Asked asked) {
  std::unique_ptr<Control> control(new Control(std::move(asked)));
  control->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!control->epoll_) return base::system_error("epoll_create1", errno);
  if (Status ok = control->listen(host, port); !ok) return ok.error();
  return control;
}

Status Control::listen(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return base::error(ErrorCode::invalid_argument, "MORI-IO's engines are reached by IPv4 only; '", host,
                       "' is no such address: set the engine's host to one");
  }
  listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_) return base::system_error("socket", errno);
  const int on = 1;
  static_cast<void>(::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (::bind(listener_.get(), generic, size) != 0 || ::listen(listener_.get(), 128) != 0) {
    return base::error(errno == EADDRINUSE ? ErrorCode::conflict : ErrorCode::failed,
                       "listen for MORI-IO's engines at ", host, ":", port, ": ", base::errno_text(errno),
                       "; choose another mori_port");
  }
  if (::getsockname(listener_.get(), generic, &size) != 0) return base::system_error("getsockname", errno);
  port_ = ntohs(address.sin_port);
  return watch(listener_.get(), EPOLLIN | EPOLLET);
}

Status Control::watch(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return base::system_error("epoll_ctl(ADD)", errno);
}

// Few connections, for a moment each: all of them are looked at.
void Control::progress(base::TimePoint now) {
  std::array<epoll_event, 16> events;
  static_cast<void>(::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0));
  accept_callers(now);
  for (auto it = callers_.begin(); it != callers_.end();) {
    const bool stays = now < it->second.deadline && serve(it->first, it->second);
    it = stays ? std::next(it) : callers_.erase(it);
  }
  std::vector<std::pair<Answered, Result<Message>>> ended;
  for (auto it = calls_.begin(); it != calls_.end();) {
    Call& call = it->second;
    auto there = advance(call);
    if (there && !*there && now >= call.deadline) {
      there = base::error(ErrorCode::timeout, "no answer within ",
                          std::chrono::duration_cast<std::chrono::seconds>(kPatience).count(), " s");
    }
    if (there && !*there) {
      ++it;
      continue;
    }
    Result<Message> answer = there ? call.exchange->message() : Result<Message>(there.error());
    if (!answer) answer = answer.error().with_context("the engine at " + call.where);
    ended.emplace_back(std::move(call.answered), std::move(answer));
    it = calls_.erase(it);
  }
  for (auto& [answered, answer] : ended) answered(std::move(answer));
}

void Control::accept_callers(base::TimePoint now) {
  while (callers_.size() < kMostCallers) {
    base::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (!watch(socket.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)) return;
    callers_.emplace(next_++, Caller{Exchange(std::move(socket)), now + kPatience, false, false});
  }
}

// Whether the connection stays.
bool Control::serve(Question question, Caller& caller) {
  if (!caller.asked) {
    const auto there = caller.exchange.receive();
    if (!there) return false;
    if (!*there) return true;
    caller.asked = true;
    const auto message = caller.exchange.message();
    if (!message) return false;
    asked_(question, *message);
  }
  if (!caller.answered) return true;
  const auto out = caller.exchange.send();
  return out && !*out;
}

void Control::answer(Question question, const Message& message) {
  const auto found = callers_.find(question);
  if (found == callers_.end()) return;
  found->second.exchange.put(message);
  found->second.answered = true;
}

void Control::refuse(Question question) {
  const auto found = callers_.find(question);
  if (found != callers_.end()) found->second.deadline = {};  // goes at the next look
}

void Control::ask(const std::string& host, int port, const Message& message, Answered answered) {
  Call call;
  call.deadline = base::steady_clock().now() + kPatience;
  call.answered = std::move(answered);
  call.where = base::text(host, ":", port);
  auto exchange = Exchange::call(host, port);
  if (exchange) {
    exchange->put(message);
    call.exchange = std::make_unique<Exchange>(std::move(*exchange));
    call.trouble = watch(call.exchange->fd(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
  } else {
    call.trouble = exchange.error();
  }
  calls_.emplace(next_++, std::move(call));
}

Result<bool> Control::advance(Call& call) {
  if (!call.trouble) return call.trouble.error();
  const auto out = call.exchange->send();
  if (!out) return out.error();
  return *out ? call.exchange->receive() : Result<bool>(false);
}

}  // namespace stagewire::backends::rdma::mori
