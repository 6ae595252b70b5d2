#include "daemon/plans/fabrics.h"

#include <utility>

#include "src/base/clean_text.h"
#include "src/topology/fabric/fabric_file.h"

namespace harmonaize::daemon {
namespace {

/// Assumed rate, in bytes per second, of each host of a network that nobody has described: most
/// have at least this.
constexpr double kUnknownBytesPerSecond = 1.25e9;
/// The longest reason, in bytes, why a file of another daemon's is refused: it quotes the file.
constexpr size_t kMostFabricReason = 512;

// FNV-1a (Fowler, Noll, Vo, 1991), 64 bits. It need not withstand attacks: the daemons trust each
// other.
uint64_t Digest(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

std::string OneSwitchText(int hosts) {
  std::string names;
  for (int host = 0; host < hosts; ++host) {
    names += fmt::format("{}\"host{}\"", host == 0 ? "" : ", ", host);
  }
  return fmt::format(
      "[[host]]\nname = [{0}]\n\n[[switch]]\nname = \"switch\"\n\n[[link]]\nfrom = [{0}]\n"
      "to = \"switch\"\nrate = \"{1:.0f}bit\"\n",
      names, kUnknownBytesPerSecond * 8);
}

}  // namespace

const KnownFabric& Fabrics::Keep(uint64_t digest, std::string text,
                                 std::shared_ptr<const FabricModel> model) {
  const auto [found, is_new] = known_.try_emplace(digest);
  if (is_new) {
    auto rated = std::make_shared<RatedModels>(model);
    found->second = {digest, std::move(text), std::move(model), std::move(rated)};
  }
  return found->second;
}

const KnownFabric& Fabrics::Add(std::shared_ptr<const FabricModel> model) {
  std::string text = FormatFabricFile({.fabric = model->fabric(), .laboratory = {}});
  const uint64_t digest = Digest(text);
  return Keep(digest, std::move(text), std::move(model));
}

Result<const KnownFabric*> Fabrics::AddText(uint64_t digest, const std::string& text) {
  if (Digest(text) != digest) return RemoteError("a fabric came that was not asked for");
  Result<FabricFile> file = ParseFabricFile(text, "fabric-of-another-daemon");
  if (!file.ok()) return RemoteError("{}", CleanText(file.status().message(), kMostFabricReason));
  auto model = std::make_shared<const FabricModel>(std::move(file->fabric));
  return &Keep(digest, text, std::move(model));
}

const KnownFabric* Fabrics::Find(uint64_t digest) const {
  const auto found = known_.find(digest);
  return found == known_.end() ? nullptr : &found->second;
}

const KnownFabric& Fabrics::OneSwitch(int hosts) {
  const auto found = one_switch_.find(hosts);
  if (found != one_switch_.end()) return known_.at(found->second);
  Result<FabricFile> file = ParseFabricFile(OneSwitchText(hosts), "one-switch");
  const KnownFabric& made = Add(std::make_shared<const FabricModel>(std::move(file->fabric)));
  one_switch_[hosts] = made.digest;
  return made;
}

}  // namespace harmonaize::daemon
