#include "perf/fabric/generate_command.h"

#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "perf/fabric/complain.h"
#include "src/topology/fabric/fat_tree.h"

namespace harmonaize::fabric {
namespace {

constexpr char kFooter[] =
    R"(Prints a fabric file. It is for 'harmonaize plan' and 'simulate' rather than for 'fabric up': a machine
holds some dozens of emulated hosts.

Examples:
  fabric generate fat-tree --hosts 1024 > fat-tree-1024.toml
  fabric generate fat-tree --hosts 256 --uplink-rate 200Gbit > half.toml    # 2:1 oversubscribed)";

int Print(const FatTree& tree) {
  const Result<std::string> text = FatTreeFile(tree);
  if (!text.ok()) {
    Complain(text.status());
    return 1;
  }
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace

void AddGenerateCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* generate = app.add_subcommand("generate", "Print a fabric file of any size.");
  generate->footer(kFooter);
  generate->require_subcommand(1);
  CLI::App* fat_tree = generate->add_subcommand(
      "fat-tree", "Hosts at leaves; pods of leaves and spines; cores above the pods.");
  auto tree = std::make_shared<FatTree>();
  const auto number = [&](const char* name, int* value, const char* help) {
    fat_tree->add_option(name, *value, help)->check(CLI::Range(1, 1 << 16))->capture_default_str();
  };
  number("--hosts", &tree->hosts, "Hosts in all");
  number("--hosts-per-leaf", &tree->hosts_per_leaf, "Hosts of a leaf");
  number("--leaves-per-pod", &tree->leaves_per_pod, "Leaves of a pod");
  number("--spines-per-pod", &tree->spines_per_pod, "Spines of a pod: uplinks of each leaf");
  number("--cores-per-spine", &tree->cores_per_spine, "Uplinks of each spine");
  number("--nics", &tree->nics, "NICs of a host");
  fat_tree->add_option("--host-rate", tree->host_rate, "Of each NIC")->capture_default_str();
  fat_tree->add_option("--uplink-rate", tree->uplink_rate, "Of each link between switches")
      ->capture_default_str();
  fat_tree->add_option("--latency-us", tree->latency_us, "Of each link")->capture_default_str();
  fat_tree->callback([tree, &command_line] { command_line.exit_status = Print(*tree); });
}

}  // namespace harmonaize::fabric
