#include "cli/drain/drain_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/jobs/short_job_id.h"
#include "cli/maintenance/answer_text.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

/// Jobs that a line of progress names: more would not fit a terminal.
constexpr size_t kJobsInLine = 3;

std::string LabelOf(const Json& job) {
  const std::string name = TextAt(job, "name");
  return name.empty() || name == kMissing ? ShortJobId(TextAt(job, "job")) : name;
}

std::string Counted(uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::string DrainProgress(const Json& drain) {
  const Json& jobs = ListAt(drain, "jobs");
  const uint64_t communicators = CountAt(drain, "communicators");
  if (communicators == 0) return "no communicator is left";
  std::string text =
      fmt::format("waiting for {} with {}", Counted(CountAt(drain, "job_count"), "job"),
                  Counted(communicators, "communicator"));
  for (size_t i = 0; i < std::min(jobs.size(), kJobsInLine); ++i) {
    text += fmt::format("{} {} ({}, {}, since {}, {})", i == 0 ? ":" : ",", LabelOf(jobs[i]),
                        TextAt(jobs[i], "tenant"), Counted(CountAt(jobs[i], "ranks"), "rank"),
                        MomentAt(jobs[i], "since"), AnswerText(jobs[i]));
  }
  if (jobs.size() > kJobsInLine) text += ", ...";
  return text;
}

std::string DrainText(const Json& drain) {
  const std::string state = TextAt(drain, "state");
  if (state == "serving") return "the daemon serves: it does not drain\n";
  const bool timed = !At(drain, "deadline").is_null();
  const bool left_over = state == "drained" && CountAt(drain, "communicators") > 0;
  std::string text = "the daemon " +
                     std::string(left_over ? "takes no new programs" : "is " + state) + " since " +
                     MomentAt(drain, "since");
  if (left_over) {
    text += ", and its deadline, " + MomentAt(drain, "deadline") + ", has passed";
  } else {
    text += timed ? ", until " + MomentAt(drain, "deadline") : ", for as long as jobs take";
  }
  text += YesAt(drain, "restart") ? ", and restarts then\n" : "\n";
  const std::string reason = TextAt(drain, "reason");
  if (!reason.empty() && reason != kMissing) text += "reason: " + reason + "\n";
  TextTable table({"job", "name", "tenant", "since", "answer", "communicators", "ranks"}, 5);
  for (const Json& job : ListAt(drain, "jobs")) {
    table.Add({ShortJobId(TextAt(job, "job")), TextAt(job, "name"), TextAt(job, "tenant"),
               MomentAt(job, "since"), AnswerText(job), TextAt(job, "communicators"),
               TextAt(job, "ranks")});
  }
  if (table.empty()) return text + "no communicator is left\n";
  table.Print(&text);
  return text;
}

}  // namespace harmonaize
