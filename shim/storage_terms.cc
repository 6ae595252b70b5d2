#include "shim/storage_terms.h"

#include <nlohmann/json.hpp>

#include "shim/daemon_call.h"
#include "shim/job_calls.h"
#include "src/base/json_text.h"
#include "src/base/log.h"
#include "src/checkpoint/writer_messages.h"
#include "src/ipc/http_client.h"

namespace harmonaize::shim {
namespace {

using nlohmann::json;

/// Returns the value of a key of a granted document; null if it says nothing of it.
json GrantedValue(const json& granted, const char* key) {
  if (!granted.is_object()) return {};
  const json values = granted.value("values", json::object());
  return values.is_object() ? values.value(key, json()) : json();
}

StorageTerms TermsIn(const json& granted) {
  StorageTerms terms;
  const json keep = GrantedValue(granted, "checkpoint.keep");
  if (keep.is_number_unsigned() && keep.get<uint64_t>() <= checkpoint::kMostKept) {
    terms.keep = keep.get<uint32_t>();
  }
  const json format = GrantedValue(granted, "checkpoint.format");
  if (format.is_string()) {
    terms.format = checkpoint::StoreFormatOf(format.get_ref<const std::string&>());
  }
  return terms;
}

}  // namespace

StorageTerms GrantedStorageTerms(const std::string& job) {
  const Result<HttpReply> reply = AskDaemonPatiently({.target = RouteOfJob(job, "/granted")});
  if (reply.ok() && reply->status == 200) {
    return TermsIn(ReadJson(reply->body));
  }
  Log(LogLevel::kWarning, kLogInit,
      "checkpoints are stored without [checkpoint] keep and format of the job's requirements, "
      "which the daemon does not tell: {}; a program that says both needs no answer",
      reply.ok() ? ProblemIn(*reply) : reply.status().message());
  return {};
}

}  // namespace harmonaize::shim
