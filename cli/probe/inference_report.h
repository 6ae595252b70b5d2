#pragma once

#include <string>

#include "src/base/status.h"
#include "src/topology/fabric/fabric_file.h"
#include "src/topology/inference/inference.h"

namespace harmonaize {

/// What a probe has measured, and what was made of it.
struct ProbeOutcome {
  Measurements measurements;
  double seconds = 0;  ///< How long it took.
  InferredFabric inferred;
};

/// Racks, the confidence with its reasons, and a table of rates. With a fabric file of the same
/// hosts, also what it says, and how far off the rates are: payload against nominal ones.
std::string InferenceText(const ProbeOutcome& outcome, const Fabric* file);
/// The same as a JSON document with a newline at its end; rates in bytes a second.
std::string InferenceJson(const ProbeOutcome& outcome, const Fabric* file);

/// Writes the inferred fabric as a fabric file.
Status WriteInferredFabric(const std::string& path, const InferredFabric& inferred,
                           const LaboratorySettings& laboratory = {});
/// Errors: kSystemError, with the path.
Status WriteTextFile(const std::string& path, const std::string& text);

}  // namespace harmonaize
