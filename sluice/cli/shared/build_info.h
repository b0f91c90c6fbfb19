#pragma once

#include <span>
#include <string>
#include <vector>

namespace sluice {

// What this build was made with, and whether it can be used here.
struct BuildPart {
  std::string name;
  std::string what;
};

std::span<const BuildPart> build_parts();

std::string program_version();

// For --version.
std::string version_text();

// Empty in a build without torch.
std::string torch_version();

}  // namespace sluice
