#include "sluice/run/manifest.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "sluice/core/atomic_file.h"
#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"
#include "sluice/core/json_check.h"
#include "sluice/run/json_count.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kAdvice =
    "; put the files of one checkpoint back together, or go on from another "
    "one: --resume RUN/checkpoints/step-NUMBER";

std::string hex(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(number));
  return text;
}

std::uint64_t number_of(const Json& json) {
  const std::string& text = json.get_ref<const std::string&>();
  std::uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, 16);
  ensure(text.size() == 16 && error == std::errc() &&
             end == text.data() + text.size(),
         "'", text, "' must be 16 hexadecimal digits");
  return number;
}

// Numbers as anyone may have written them.
Origin origin_from(const Json& json) {
  Origin origin;
  origin.run = hex(number_of(json.at("run")));
  const auto count = [&](const char* key, std::uint64_t least,
                         std::uint64_t most) {
    const Json& value = json.at(key);
    const auto number = count_in(value, least, most);
    ensure(number.has_value(), "'", key, "' must be from ", least, " to ", most,
           ", is ", value.dump());
    return *number;
  };
  origin.step = count("step", 0, 1'000'000'000'000'000);
  origin.ranks = count("ranks", 1, 1'000'000);
  if (json.contains("rank")) origin.rank = count("rank", 0, origin.ranks - 1);
  return origin;
}

std::string text_of(const Origin& origin) {
  if (origin.run.empty()) return "of a run that had no number yet";
  return concat(origin.rank == Origin::kAllRanks
                    ? std::string("of all ")
                    : concat("of rank ", origin.rank, " of "),
                origin.ranks, " ranks after step ", origin.step, " of run ",
                origin.run);
}

std::string manifest_path(const std::string& folder) {
  return folder + "/manifest.json";
}

}  // namespace

Origin origin_of(const Checkpoint& file) {
  const Json header = Json::parse(file.header());
  const auto run = header.find("run");
  if (run == header.end() || *run == "") return {};
  try {
    return origin_from(header);
  } catch (const std::exception& e) {
    ensure(false, "[resume] '", file.path(),
           "' does not say what it is of: ", e.what());
  }
  return {};
}

void Manifest::add(const std::string& name, std::uint64_t digest) {
  digests_[name] = digest;
}

void Manifest::write(const std::string& folder) const {
  Json json = {{"version", kVersion},
               {"run", origin_.run},
               {"step", origin_.step},
               {"ranks", origin_.ranks},
               {"files", Json::object()}};
  for (const auto& [name, digest] : digests_) json["files"][name] = hex(digest);
  write_text(manifest_path(folder), json.dump(2) + "\n");
}

Manifest Manifest::read(const std::string& folder) {
  const std::string path = manifest_path(folder);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  try {
    const std::string text = read_text_file("resume", path);
    check_json("resume", text);
    const Json json = Json::parse(text);
    ensure(json.at("version") == kVersion, "it is of version ",
           json.at("version").dump(),
           ", read it with the Sluice that wrote it");
    Manifest manifest(origin_from(json));
    for (const auto& [name, digest] : json.at("files").items()) {
      manifest.add(name, number_of(digest));
    }
    return manifest;
  } catch (const std::exception& e) {
    ensure(false, "[resume] '", path, "' must be a manifest of version ",
           kVersion, ", but: ", e.what(), kAdvice);
  }
  return {};
}

void Manifest::check(const std::string& path, const Checkpoint& file,
                     std::uint64_t rank) const {
  const Origin found = origin_of(file);
  if (digests_.empty()) {
    ensure(found.run.empty(), "[resume] '", path, "' is ", text_of(found),
           ", but its folder has no manifest.json that says which files belong "
           "to it",
           kAdvice);
    return;
  }
  Origin expected = origin_;
  expected.rank = rank;
  ensure(found == expected, "[resume] '", path, "' must be ", text_of(expected),
         ", is ", text_of(found), kAdvice);
  const auto entry =
      digests_.find(std::filesystem::path(path).filename().string());
  ensure(
      entry != digests_.end() && entry->second == file.digest(), "[resume] '",
      path,
      "' is not the file that was saved with the others: its digest must be ",
      entry == digests_.end() ? "in manifest.json" : hex(entry->second),
      ", is ", hex(file.digest()), kAdvice);
}

std::string new_run_id() {
  std::random_device device;
  return hex(std::uint64_t{device()} << 32 | device());
}

}  // namespace sluice
