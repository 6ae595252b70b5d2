#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "harmonaize.h"
#include "src/base/json_text.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {

/// Returns what the job of a communicator is granted.
inline nlohmann::json GrantedTo(ncclComm_t communicator) {
  const char* text = nullptr;
  EXPECT_NCCL(hzGetGranted(communicator, &text));
  return ReadJson(text);
}

/// Returns a field of the newest plans for this collective, of the communicators that have their
/// home at this daemon.
inline std::set<std::string> PlansAt(DaemonProcess& daemon, const std::string& collective,
                                     const std::string& field) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  std::set<std::string> values;
  const auto document = ReadJson(*status);
  for (const auto& tenant : document.at("tenants")) {
    for (const auto& communicator : tenant.at("communicators")) {
      const std::string id = std::to_string(communicator.at("id").get<uint64_t>());
      const Result<std::string> told = FetchCommunicatorExplanation(daemon.socket_path(), id);
      EXPECT_TRUE(told.ok()) << told.status().message();
      const auto explained = ReadJson(*told);
      for (const auto& plan : explained.at("plans")) {
        if (plan.at("collective") == collective) values.insert(plan.at(field).get<std::string>());
      }
    }
  }
  return values;
}

}  // namespace harmonaize::testing
