#include "sluice/run/checkpoint_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "sluice/core/atomic_file.h"
#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";

// Nothing for what is not the name of a checkpoint.
std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::uint64_t step = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), step);
  const bool all = !name.empty() && end == name.data() + name.size();
  return all && error == std::errc() ? std::optional(step) : std::nullopt;
}

std::string name_of(std::uint64_t step) {
  char text[32];
  std::snprintf(text, sizeof(text), "step-%08llu",
                static_cast<unsigned long long>(step));
  return text;
}

void sync_folder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool ok = fd >= 0 && fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  ensure(ok, "[checkpoint] '", path,
         "' did not reach the disk: ", std::strerror(error));
}

// Exchanges the two if `to` is there, so that neither is missing at any time.
void move_folder(const std::string& from, const std::string& to) {
  const bool there = fs::exists(to);
  const int flags = there ? 2 /* RENAME_EXCHANGE */ : 0;
  ensure(renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                   static_cast<unsigned>(flags)) == 0,
         "[checkpoint] '", from, "' could not be renamed to '", to,
         "': ", std::strerror(errno));
  std::error_code ignored;
  if (there) fs::remove_all(from, ignored);
}

struct Entry {
  std::uint64_t step = 0;
  std::string path;
};

// From the oldest on.
std::vector<Entry> checkpoints_in(const std::string& folder) {
  std::vector<Entry> entries;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && entry.is_directory(ignored)) {
      entries.push_back({*step, entry.path().string()});
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.step < b.step; });
  return entries;
}

// What `latest` in a folder names, or why it names nothing.
struct Latest {
  std::string path;
  std::string note;
};

Latest read_latest(const std::string& folder) {
  const std::string path = folder + "/latest";
  const std::string problem = why_no_file(path);
  if (!problem.empty()) {
    return {"", concat("'", path, "' cannot be read: ", problem)};
  }
  std::string name = read_text_file("resume", path);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  if (name.empty()) return {"", concat("'", path, "' is empty")};
  std::error_code ignored;
  if (step_of(name) && fs::is_directory(folder + "/" + name, ignored)) {
    return {folder + "/" + name, ""};
  }
  return {"", concat("'", path, "' names '", name.substr(0, 40),
                     "', which is no checkpoint here")};
}

std::string abandoned_name(const std::string& path) {
  std::string name = path + ".abandoned";
  for (int i = 2; fs::exists(name); ++i) name = concat(path, ".abandoned-", i);
  return name;
}

}  // namespace

std::string CheckpointStore::partial(std::uint64_t step) const {
  return folder() + "/." + name_of(step) + ".partial";
}

void CheckpointStore::begin(std::uint64_t step) const {
  std::error_code error;
  fs::remove_all(partial(step), error);
  fs::create_directories(folder(), error);
  // A new one: in a shared folder a link could have this name.
  const bool made = !error && fs::create_directory(partial(step), error);
  ensure(made, "[checkpoint] the folder '", partial(step),
         "' could not be made",
         error ? concat(": ", error.message())
               : "; something of that name is there and cannot be removed");
}

std::string CheckpointStore::publish(std::uint64_t step) const {
  const std::string path = folder() + "/" + name_of(step);
  sync_folder(partial(step));
  move_folder(partial(step), path);
  sync_folder(folder());
  write_text(folder() + "/latest", name_of(step) + "\n");

  std::vector<Entry> others = checkpoints_in(folder());
  std::erase_if(others, [&](const Entry& e) { return e.step == step; });
  std::error_code ignored;
  while (others.size() >= std::max<std::size_t>(keep_, 1)) {
    fs::remove_all(others.front().path, ignored);
    others.erase(others.begin());
  }
  return path;
}

void CheckpointStore::discard(std::uint64_t step) const {
  std::error_code ignored;
  fs::remove_all(partial(step), ignored);
}

std::vector<std::string> CheckpointStore::go_on_from(
    const std::string& from) const {
  fs::path path = fs::absolute(from).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::error_code ignored;
  const bool ours = fs::equivalent(path.parent_path(), folder(), ignored);
  const auto kept = ours ? step_of(path.filename().string()) : std::nullopt;
  // First: whoever comes after a kill here goes on from the same one.
  if (kept) write_text(folder() + "/latest", name_of(*kept) + "\n");
  std::vector<std::string> abandoned;
  for (const Entry& entry : checkpoints_in(folder())) {
    if (kept && entry.step <= *kept) continue;
    abandoned.push_back(abandoned_name(entry.path));
    move_folder(entry.path, abandoned.back());
  }
  if (!abandoned.empty()) sync_folder(folder());
  return abandoned;
}

CheckpointStore::Found CheckpointStore::find_all(const std::string& path) {
  if (fs::exists(path + "/model.ckpt")) return {{path}, ""};
  const std::string folder = path + "/checkpoints";
  Found found;
  for (Entry& entry : checkpoints_in(folder)) {
    found.folders.insert(found.folders.begin(), std::move(entry.path));
  }
  if (found.folders.empty()) return found;
  const Latest latest = read_latest(folder);
  found.note = latest.note;
  const auto at =
      std::find(found.folders.begin(), found.folders.end(), latest.path);
  if (at != found.folders.end()) {
    std::rotate(found.folders.begin(), at, at + 1);
  }
  return found;
}

std::string CheckpointStore::find(const std::string& path) {
  const Found found = find_all(path);
  return found.folders.empty() ? "" : found.folders.front();
}

std::uint64_t CheckpointStore::step_in(const std::string& folder) {
  return step_of(fs::path(folder).filename().string()).value_or(0);
}

}  // namespace sluice
