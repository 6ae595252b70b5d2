#include "daemon/requirements/statements.h"

#include <algorithm>

#include "daemon/cluster/messages/event.h"
#include "src/base/mix_bits.h"
#include "src/base/random.h"

namespace harmonaize::daemon {

Result<Requirements> ReadStatement(std::string_view text, const std::string& name) {
  HZ_ASSIGN_OR_RETURN(const Requirements read, ParseRequirements(text, name));
  return ParseRequirements(RequirementsText(read), name);
}

bool Statements::Take(const Requirements& statement, const StatementStamp& stamp) {
  newest_ = std::max(newest_, stamp);
  if (stamp <= forgotten_) return false;
  bool is_new = false;
  for (const auto& [key, value] : statement.values) {
    Value& known = values_[key];
    if (stamp <= known.stamp) continue;
    known = {stamp, value};
    is_new = true;
  }
  is_new |= TakeList(statement.overrides, stamp, &overrides_);
  is_new |= TakeList(statement.launches, stamp, &launches_);
  return is_new;
}

bool Statements::TakeList(const std::vector<RequirementTable>& tables, const StatementStamp& stamp,
                          List* list) {
  if (tables.empty() || stamp <= list->stamp) return false;
  *list = {stamp, tables};
  return true;
}

bool Statements::Forget(const StatementStamp& stamp) {
  newest_ = std::max(newest_, stamp);
  if (stamp <= forgotten_) return false;
  forgotten_ = stamp;
  std::erase_if(values_, [&](const auto& one) { return one.second.stamp <= stamp; });
  ForgetList(&overrides_);
  ForgetList(&launches_);
  return true;
}

void Statements::ForgetList(List* list) const {
  if (list->stamp <= forgotten_) *list = {};
}

Requirements Statements::All() const {
  Requirements all{.values = {}, .overrides = overrides_.tables, .launches = launches_.tables};
  for (const auto& [key, known] : values_) all.values.emplace(key, known.value);
  return all;
}

std::map<StatementStamp, Requirements> Statements::ByStamp() const {
  std::map<StatementStamp, Requirements> statements;
  for (const auto& [key, known] : values_) {
    statements[known.stamp].values.emplace(key, known.value);
  }
  if (!overrides_.tables.empty()) statements[overrides_.stamp].overrides = overrides_.tables;
  if (!launches_.tables.empty()) statements[launches_.stamp].launches = launches_.tables;
  return statements;
}

uint64_t Statements::Digest() const {
  uint64_t digest = 0;
  const auto mix = [&digest](uint64_t value) { digest = MixBits(digest ^ value); };
  const auto mix_stamp = [&mix](const StatementStamp& stamp) {
    mix(stamp.number);
    mix(stamp.unique);
  };
  mix_stamp(forgotten_);
  for (const auto& [key, known] : values_) {
    for (const char letter : key) mix(static_cast<unsigned char>(letter));
    mix_stamp(known.stamp);
  }
  mix_stamp(overrides_.stamp);
  mix_stamp(launches_.stamp);
  return digest;
}

StatementStamp Statements::Next() const {
  return {std::min(newest_.number, kMostStatementNumber - 1) + 1, RandomNumber()};
}

}  // namespace harmonaize::daemon
