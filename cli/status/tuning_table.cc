#include "cli/status/tuning_table.h"

#include <fmt/format.h>

#include "cli/text_table.h"

namespace harmonaize {

void PrintTuning(const Json& status, std::string* text) {
  const Json& tuning = At(status, "nccl_tuning");
  TextTable here({"tuned by NCCL", "uid", "ranks", "ranks here", "changes"}, 1);
  for (const Json& one : ListAt(tuning, "here")) {
    here.Add({TextAt(one, "communicator"), TextAt(one, "user"), TextAt(one, "ranks"),
              TextAt(one, "ranks_here"), TextAt(one, "changes")});
  }
  TextTable home({"advised from here", "uid", "ranks", "known ranks", "changes", "largest factor"},
                 1);
  for (const Json& one : ListAt(tuning, "home")) {
    const Json& factor = At(one, "largest_factor");
    home.Add({TextAt(one, "communicator"), TextAt(one, "user"), TextAt(one, "ranks"),
              TextAt(one, "known_ranks"), TextAt(one, "changes"),
              factor.is_number() ? fmt::format("{:.2f}", factor.get<double>()) : kMissing});
    const Json& why = At(one, "stays_as_it_is");
    if (why.is_string() && why != "") home.AddNote("its choices stay as they are: " + TextOf(why));
  }
  for (TextTable* const table : {&here, &home}) {
    if (table->empty()) continue;
    *text += "\n";
    table->Print(text);
  }
}

}  // namespace harmonaize
