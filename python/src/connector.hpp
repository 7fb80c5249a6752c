// stagewire.Connector as the binding holds it.
#pragma once

#include <memory>

#include "binding.hpp"
#include "changes.hpp"
#include "stagewire/connector.hpp"

namespace stagewire::python {

struct OpenConnector {
  explicit OpenConnector(std::shared_ptr<Connector> opened) : connector(std::move(opened)) {}

  Owned<Connector> connector;
  std::shared_ptr<Changes> changes = std::make_shared<Changes>();  ///< callbacks may outlive the connector
};

}  // namespace stagewire::python
