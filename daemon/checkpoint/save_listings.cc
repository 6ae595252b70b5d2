#include "daemon/checkpoint/save_listings.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/checkpoint/kept_parts.h"
#include "daemon/checkpoint/other_hosts_parts.h"
#include "daemon/checkpoint/saves_document.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/tenant/tenant_table.h"

namespace harmonaize::daemon {
namespace {

const char* NameOfState(StoredList::State state) {
  switch (state) {
    case StoredList::State::kNone: return "none";
    case StoredList::State::kUnreadable: return "unreadable";
    case StoredList::State::kRead: return "read";
  }
  return "";
}

}  // namespace

void SaveListings::List(const JobTable::Key& job, const Communicator* communicator, Listed listed) {
  const auto [entry, is_new] = listings_.try_emplace(job);
  if (is_new) {
    entry->second.asked.push_back(std::move(listed));
    return Begin(job, communicator);
  }
  entry->second.next.push_back(std::move(listed));
  if (communicator != nullptr) entry->second.next_communicator = communicator->id();
}

void SaveListings::Begin(const JobTable::Key& job, const Communicator* communicator) {
  // Each answer, which may come at once, counts once; so does this call, until all are asked.
  listings_.at(job).open = 3;
  const Tenant* const tenant = services_.tenants->OfNumber(job.first);
  if (tenant == nullptr) {
    EndOne(job);
  } else {
    services_.stored->List(*tenant, job, lifetime_.Guard([this, job](StoredList stored) {
      listings_.at(job).stored = std::move(stored);
      EndOne(job);
    }));
  }
  if (communicator == nullptr) {
    EndOne(job);
  } else {
    services_.others->List(*communicator,
                           lifetime_.Guard([this, job](std::vector<HostSaves> others) {
                             listings_.at(job).others = std::move(others);
                             EndOne(job);
                           }));
  }
  EndOne(job);
}

void SaveListings::EndOne(const JobTable::Key& job) {
  const auto found = listings_.find(job);
  if (--found->second.open > 0) return;
  Listing ended = std::move(found->second);
  if (ended.next.empty()) {
    listings_.erase(found);
  } else {
    found->second = {.asked = std::move(ended.next)};
    Begin(job, services_.communicators->FindById(ended.next_communicator));
  }
  nlohmann::json document =
      SavesDocument(services_.parts->Of(job), ended.others, ended.stored.saves);
  document["provider_store"] = NameOfState(ended.stored.state);
  for (const Listed& listed : ended.asked) listed(document);
}

}  // namespace harmonaize::daemon
