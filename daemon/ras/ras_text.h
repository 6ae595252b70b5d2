#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace harmonaize::daemon {

/// How an answer to STATUS came about.
struct RasAnswerFacts {
  bool verbose = false;
  double seconds = 0;        ///< From the question to the report.
  std::string time = {};     ///< Now, as NCCL writes it: "2026-11-28 21:00:00".
  std::string version = {};  ///< The daemon's.
};

/// Returns the answer to STATUS for people, in the form of NCCL's. `report` is a RasReport. Thread:
/// any.
std::string RasStatusText(const nlohmann::json& report, const RasAnswerFacts& facts);

/// Returns the answer to STATUS in JSON, with the fields of NCCL's.
std::string RasStatusJson(const nlohmann::json& report, const RasAnswerFacts& facts);

}  // namespace harmonaize::daemon
