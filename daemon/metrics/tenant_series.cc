#include "daemon/metrics/tenant_series.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "src/base/clean_text.h"
#include "src/base/saturating.h"

namespace harmonaize::daemon {
namespace {

/// Longest name, in bytes: the names of containers' control groups are longer, and differ early.
constexpr size_t kMostNameBytes = 128;

bool HoldsSomething(const TenantFacts& tenant) {
  return tenant.held[static_cast<size_t>(Resource::kConnections)] > 0;
}

void AddWhatCame(TenantUsage* sum, const TenantUsage& before, const TenantUsage& now) {
  for (uint64_t TenantUsage::*field :
       {&TenantUsage::operations, &TenantUsage::bytes, &TenantUsage::claimed_operations,
        &TenantUsage::claimed_bytes, &TenantUsage::worked_ns, &TenantUsage::request_ns}) {
    sum->*field = AddUpTo(sum->*field, now.*field - before.*field);
  }
}

/// Returns a label that no other tenant of this page has. Two tenants may have the same name, and
/// one may be called as the sum is.
std::string LabelOf(const TenantUsage& usage, std::set<std::string>* taken) {
  std::string label = CleanText(usage.name, kMostNameBytes);
  while (!taken->insert(label).second) label += fmt::format(" ({})", usage.number);
  return label;
}

}  // namespace

std::vector<NamedTenant> TenantSeries::Name(const std::vector<TenantFacts>& tenants) {
  ++calls_;
  GivePlaces(tenants);
  std::set<std::string> taken = {kOthers};
  std::vector<NamedTenant> named;
  NamedTenant others{.label = kOthers, .facts = {}};
  for (const TenantFacts& tenant : tenants) {
    Known& known = known_.at(tenant.usage.number);
    if (known.is_named) {
      named.push_back({.label = LabelOf(tenant.usage, &taken), .facts = tenant});
    } else {
      AddWhatCame(&others_, known.last, tenant.usage);
      for (size_t i = 0; i < kResourceCount; ++i) others.facts.held[i] += tenant.held[i];
    }
    known.last = tenant.usage;
  }
  others.facts.usage = others_;
  named.push_back(std::move(others));
  return named;
}

void TenantSeries::GivePlaces(const std::vector<TenantFacts>& tenants) {
  for (const TenantFacts& tenant : tenants) {
    Known& known = known_[tenant.usage.number];
    if (HoldsSomething(tenant)) known.active_at = calls_;
  }
  for (const TenantFacts& tenant : tenants) {
    Known& known = known_[tenant.usage.number];
    if (known.is_named) continue;
    if (named_ >= most_) {
      // A tenant that has left needs no place.
      if (!HoldsSomething(tenant)) continue;
      if (!FreeOnePlace()) break;
    }
    known.is_named = true;
    ++named_;
  }
}

// Takes the place of the named tenant that has held nothing for longest.
bool TenantSeries::FreeOnePlace() {
  Known* longest = nullptr;
  for (auto& [number, known] : known_) {
    if (!known.is_named || known.active_at == calls_) continue;
    if (longest == nullptr || known.active_at < longest->active_at) longest = &known;
  }
  if (longest == nullptr) return false;
  longest->is_named = false;
  --named_;
  return true;
}

}  // namespace harmonaize::daemon
