#include "cli/checkpoints/advice_table.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "cli/human_units.h"
#include "cli/json_view.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

/// Returns what an interval follows from, in words.
std::string BoundText(const Json& interval) {
  const std::string from = TextAt(interval, "from");
  if (from == "optimum") return "the least time lost in all";
  if (from == "stated") return "as the job has stated";
  if (from == "most_lost_work") return "no more work lost than the job has stated";
  if (from == "overhead_cap") return "no more time for checkpoints than the job has stated";
  if (from == "save_time") return "one checkpoint after the other";
  return "the " + from + " that is advised";
}

/// Returns failures a day with three digits.
std::string RateAt(const Json& rate, const char* key) {
  const Json& value = At(rate, key);
  return value.is_number() ? fmt::format("{:.3g}", value.get<double>()) : std::string(kMissing);
}

TextTable MomentsTable(const Json& advice) {
  TextTable table({"why", "begin from", "until", "takes", "needed"}, 3);
  for (const Json& moment : ListAt(advice, "moments")) {
    const bool fits = YesAt(moment, "fits");
    const std::string from = YesAt(moment, "now") ? "now" : MomentAt(moment, "not_before");
    table.Add({TextAt(moment, "why"), fits ? from : "does not fit", MomentAt(moment, "deadline"),
               TimeAt(At(moment, "expected"), "p50"), PercentAt(moment, "confidence")});
  }
  return table;
}

std::string IntervalText(const Json& advice) {
  const Json& interval = At(advice, "interval");
  std::string text = fmt::format("interval {}: {}; checkpoints take {} of the time\n",
                                 DurationAt(interval, "seconds"), BoundText(interval),
                                 PercentAt(interval, "overhead"));
  text += fmt::format("a failure costs {} of work on average, {} at most\n",
                      DurationAt(interval, "expected_lost_seconds"),
                      DurationAt(interval, "worst_lost_seconds"));
  if (!YesAt(interval, "keeps_most_lost_work")) text += "most_lost_work cannot be kept\n";
  if (!YesAt(interval, "keeps_overhead_cap")) text += "overhead_cap cannot be kept\n";
  const Json& usual = At(advice, "usual");
  text += fmt::format("a checkpoint stops the job for {} and is safe after {} ({})\n",
                      TimeAt(usual, "stall_seconds"), TimeAt(At(usual, "seconds"), "p50"),
                      TextAt(usual, "from"));
  return text;
}

std::string LastText(const Json& advice) {
  const Json& last = At(advice, "last");
  if (!last.is_object()) return "the job has told of no checkpoint\n";
  return fmt::format("the last checkpoint is of step {}, in {}, taken at {}\n",
                     TextAt(last, "step"), TextAt(last, "where"), MomentAt(last, "saved"));
}

TextTable HazardTable(const Json& advice) {
  TextTable table({"failures a day", "mean", "p10", "p50", "p90"}, 1);
  const auto add = [&table](const std::string& name, const Json& rate) {
    table.Add({name, RateAt(rate, "per_day"), RateAt(rate, "p10"), RateAt(rate, "p50"),
               RateAt(rate, "p90")});
  };
  const Json& hazard = At(advice, "hazard");
  for (const Json& cause : ListAt(hazard, "causes")) add(TextAt(cause, "cause"), cause);
  add("all", hazard);
  return table;
}

}  // namespace

Result<std::string> CheckpointAdviceTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json advice, ParseDocument(document));
  std::string text;
  MomentsTable(advice).Print(&text);
  text += "\n" + IntervalText(advice) + LastText(advice) + "\n";
  HazardTable(advice).Print(&text);
  if (!YesAt(advice, "advised")) {
    text +=
        "\nthe job hears of this by events once it states something in [checkpoint], or reports a "
        "checkpoint\n";
  }
  return text;
}

}  // namespace harmonaize
