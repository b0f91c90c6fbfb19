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

// "NAME", "NAME VERSION", or that it is not there.
std::string built_in(bool there, const std::string& what);

// What is for training alone: torch, and readers of images and sounds.
std::vector<BuildPart> training_parts();

}  // namespace sluice
