#include "perf/opportunities/advice.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "perf/opportunities/job.h"
#include "src/base/json_text.h"

namespace harmonaize::opportunities {

void ReportProgress(ncclComm_t comm, const Progress& progress) {
  hzProgress_t told = HZ_PROGRESS_INITIALIZER;
  told.step = progress.step;
  told.samples = progress.samples;
  told.loss = progress.loss;
  told.batch_size = progress.batch_size;
  told.accumulation = progress.accumulation;
  told.learning_rate_factor = progress.learning_rate_factor;
  Check(hzReportProgress(comm, &told), "hzReportProgress");
}

std::optional<Advice> ReadAdvice(const std::string& json) {
  const nlohmann::json event = ReadJson(json);
  if (!event.is_object() || !event.contains("data")) return std::nullopt;
  const nlohmann::json& data = event["data"];
  if (!data.is_object() || !data.contains("setting") || !data["setting"].is_string() ||
      !data.contains("to") || !data["to"].is_number()) {
    return std::nullopt;
  }
  Advice advice{.setting = data["setting"], .to = data["to"]};
  if (data.contains("learning_rate_factor") && data["learning_rate_factor"].is_number()) {
    advice.learning_rate_factor = data["learning_rate_factor"].get<double>();
  }
  if (data.contains("why") && data["why"].is_string()) advice.why = data["why"];
  return advice;
}

AdviceListener::AdviceListener(ncclComm_t comm) {
  Check(hzSubscribe(comm, "adaptation.advised", nullptr, nullptr, nullptr, &subscription_),
        "hzSubscribe");
}

AdviceListener::~AdviceListener() {
  hzUnsubscribe(subscription_);
}

std::optional<Advice> AdviceListener::Poll() {
  hzEvent_t event{};
  const ncclResult_t result = hzNextEvent(subscription_, 0, &event);
  if (result == ncclInProgress) return std::nullopt;
  Check(result, "hzNextEvent");
  return event.missed != 0 ? std::nullopt : ReadAdvice(event.json);
}

}  // namespace harmonaize::opportunities
