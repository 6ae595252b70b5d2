#pragma once

#include <string>

#include "src/base/status.h"
#include "src/topology/fabric/fabric_file.h"
#include "src/topology/inference/inference.h"

namespace harmonaize {

/// The measurements of a probe, and the fabric inferred from them.
struct ProbeOutcome {
  Measurements measurements;
  double seconds = 0;  ///< Duration of the probe.
  InferredFabric inferred;
};

/// Returns the racks, the confidence with its reasons, and a table of rates. With a fabric file of
/// the same hosts, also the file's values, and how far off the rates are: payload against nominal
/// ones.
std::string InferenceText(const ProbeOutcome& outcome, const Fabric* file);
/// Returns InferenceText's content as a JSON document with a newline at its end; rates in bytes a
/// second.
std::string InferenceJson(const ProbeOutcome& outcome, const Fabric* file);

/// Writes the inferred fabric as a fabric file.
Status WriteInferredFabric(const std::string& path, const InferredFabric& inferred,
                           const LaboratorySettings& laboratory = {});
/// Errors: kSystemError, with the path.
Status WriteTextFile(const std::string& path, const std::string& text);

}  // namespace harmonaize
