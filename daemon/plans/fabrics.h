#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "src/base/status.h"
#include "src/planner/fabric_model.h"
#include "src/planner/rated_models.h"

namespace harmonaize::daemon {

/// A fabric that communicators are planned on, with the text that other daemons get.
struct KnownFabric {
  uint64_t digest = 0;
  std::string text;  ///< A fabric file; equal fabrics have equal texts.
  std::shared_ptr<const FabricModel> model;
  std::shared_ptr<RatedModels> rated;  ///< The same fabric at other rates.
};

/// All fabrics that this daemon has met: the provider's, those of other homes, and those that stand
/// for a network that nobody has described. Thread: engine.
class Fabrics {
 public:
  const KnownFabric& Add(std::shared_ptr<const FabricModel> model);
  /// Adds a fabric that another daemon has sent. Returns kRemoteError if it is no fabric, or not
  /// the one that was asked for.
  Result<const KnownFabric*> AddText(uint64_t digest, const std::string& text);
  /// Returns the fabric; nullptr if it is not known.
  const KnownFabric* Find(uint64_t digest) const;

  /// The provider's fabric, by which this daemon's rails are numbered.
  void SetOwn(std::shared_ptr<const FabricModel> model) { own_ = Add(std::move(model)).digest; }
  /// The digest of the provider's fabric; 0 if the provider has named none.
  uint64_t own() const { return own_; }

  /// Returns a fabric of this many equal hosts at one switch.
  const KnownFabric& OneSwitch(int hosts);

 private:
  const KnownFabric& Keep(uint64_t digest, std::string text,
                          std::shared_ptr<const FabricModel> model);

  std::map<uint64_t, KnownFabric> known_;
  uint64_t own_ = 0;
  std::map<int, uint64_t> one_switch_;  // digests, by number of hosts
};

}  // namespace harmonaize::daemon
