#include "doctor/checks.hpp"

namespace stagewire::doctor {
namespace {

Finding address_finding(const char* name, const Result<control::AddressChoice>& choice) {
  Finding finding{.topic = "addresses", .name = name};
  if (choice) {
    finding.value = choice->address;
    finding.advice = choice->reason;
  } else {
    finding.value = choice.error().message();
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_addresses(const std::vector<control::InterfaceAddress>& candidates,
                                     std::string_view default_interface) {
  Finding here = address_finding("one_host", control::choose_address(candidates, default_interface, true));
  if (here.advice.empty()) {
    here.state = Finding::State::problem;
    here.advice = "stages find no address to bind, not even that of the loopback interface";
    here.command = "sudo ip link set lo up";
  }
  const auto choice = control::choose_address(candidates, default_interface, false);
  Finding elsewhere = address_finding("other_hosts", choice);
  if (choice && here.value == elsewhere.value) here.advice.clear();  // one reason is enough
  if (!choice) {
    elsewhere.state = Finding::State::note;
    elsewhere.advice = "with 'host: auto' stages on other hosts could not reach this one";
    elsewhere.command = "ip address add ADDRESS/PREFIX dev INTERFACE, or name the address: host: 10.0.0.2";
  }
  return {here, elsewhere};
}

}  // namespace stagewire::doctor
