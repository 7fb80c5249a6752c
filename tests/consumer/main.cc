#include <stagewire/log.hpp>
#include <stagewire/result.hpp>

int main() {
  stagewire::set_log_level(stagewire::LogLevel::warning);
  return stagewire::to_string(stagewire::ErrorCode::timeout) == "timeout" ? 0 : 1;
}
