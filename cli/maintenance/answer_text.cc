#include "cli/maintenance/answer_text.h"

namespace harmonaize {
namespace {

std::string Answered(const Json& answer) {
  const bool ready = !At(answer, "acknowledged").is_null();
  const bool asks = !At(answer, "asked").is_null();
  const std::string acknowledged = "acknowledged " + MomentAt(answer, "acknowledged");
  const std::string until = " for time until " + MomentAt(answer, "asked_until");
  if (!ready && !asks) return "";
  if (!asks) return acknowledged;
  if (!ready) return "asks" + until;
  // Times of one form sort as texts.
  const bool asks_last = TextAt(answer, "asked") > TextAt(answer, "acknowledged");
  return asks_last ? "asks" + until + " (" + acknowledged + ")"
                   : acknowledged + " (asked" + until + ")";
}

}  // namespace

std::string AnswerText(const Json& answer) {
  const std::string answered = Answered(answer);
  if (!YesAt(answer, "ended")) return answered.empty() ? "not acknowledged" : answered;
  return answered.empty() ? "ended" : answered + ", ended";
}

}  // namespace harmonaize
