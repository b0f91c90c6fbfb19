#include <map>
#include <nlohmann/json.hpp>

#include "sluice/core/ensure.h"
#include "sluice/weights/import.h"

namespace sluice {
namespace {

constexpr std::size_t kShown = 8;

// A line per reason: hundreds of names with one reason are one fact.
void append_group(std::string& text, std::string_view title,
                  const std::vector<std::string>& names) {
  if (names.empty()) return;
  text.append("\n").append(title).append(concat(" (", names.size(), "):"));
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
    text.append(" ").append(names[i]);
  }
  if (names.size() > kShown) {
    text.append(concat(" and ", names.size() - kShown, " more"));
  }
}

}  // namespace

std::string ImportReport::text() const {
  std::string out =
      concat("weights of '", path, "' (", format, ", names of ", dialect,
             "): ", fitted.size(), " of ",
             fitted.size() + unfit.size() + fresh.size(), " tensors fit");
  std::map<std::string, std::size_t> ways;
  for (const Fitted& item : fitted) {
    if (item.how != "as it is") ++ways[item.how];
  }
  for (const auto& [how, count] : ways) {
    out.append(concat("\n", how, ": ", count));
  }
  for (const Unfit& item : unfit) {
    out.append(concat("\ndoes not fit, stays new: ", item.name, " must be ",
                      item.expected, ", ", item.source, " is ", item.given));
  }
  append_group(out, "not in the file, stays new", fresh);
  std::map<std::string, std::vector<std::string>> reasons;
  for (const Ignored& item : ignored) reasons[item.why].push_back(item.name);
  for (const auto& [why, names] : reasons) {
    append_group(out, concat("ignored, ", why), names);
  }
  append_group(out, "of the file, not used", unused);
  for (const std::string& note : notes) out.append("\nnote: ").append(note);
  return out;
}

std::string ImportReport::json() const {
  using Json = nlohmann::ordered_json;
  Json out = {{"path", path},
              {"format", format},
              {"kind", kind},
              {"dialect", dialect},
              {"fitted", Json::array()},
              {"unfit", Json::array()},
              {"new", fresh},
              {"ignored", Json::array()},
              {"unused", unused},
              {"notes", notes},
              {"missing_body", missing_body}};
  for (const Fitted& item : fitted) {
    out["fitted"].push_back(
        {{"name", item.name}, {"source", item.source}, {"how", item.how}});
  }
  for (const Unfit& item : unfit) {
    out["unfit"].push_back({{"name", item.name},
                            {"source", item.source},
                            {"expected", item.expected},
                            {"given", item.given}});
  }
  for (const Ignored& item : ignored) {
    out["ignored"].push_back({{"name", item.name}, {"why", item.why}});
  }
  // Names of a stranger's file need not be UTF-8.
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void ImportReport::require_body() const {
  if (missing_body.empty()) return;
  const std::string& first = missing_body.front();
  for (const Unfit& item : unfit) {
    ensure(item.name != first, "[import] '", path, "' must fit but for heads, ",
           missing_body.size(), " tensors do not; the first: '", first,
           "' must be ", item.expected, ", '", item.source, "' is ",
           item.given);
  }
  ensure(false, "[import] '", path, "' must have all but heads, ",
         missing_body.size(), " tensors are missing; the first: '", first, "'");
}

}  // namespace sluice
