#include "sluice/cli/bench/model_shapes.h"

#include <array>
#include <map>

#include "sluice/core/error.h"

namespace sluice {
namespace {

// A convolution and the batch norm behind it.
void add_convolution(std::vector<Dims>& out, std::size_t to, std::size_t from,
                     std::size_t edge) {
  out.push_back({to, from, edge, edge});
  out.push_back({to});
  out.push_back({to});
}

void add_linear(std::vector<Dims>& out, std::size_t to, std::size_t from) {
  out.push_back({to, from});
  out.push_back({to});
}

void add_norm(std::vector<Dims>& out, std::size_t size) {
  out.push_back({size});
  out.push_back({size});
}

// Of bottlenecks, for 1000 classes.
std::vector<Dims> resnet(const std::array<std::size_t, 4>& blocks) {
  std::vector<Dims> out;
  add_convolution(out, 64, 3, 7);
  std::size_t from = 64;
  std::size_t width = 64;
  for (const std::size_t count : blocks) {
    for (std::size_t block = 0; block < count; ++block) {
      add_convolution(out, width, from, 1);
      add_convolution(out, width, width, 3);
      add_convolution(out, 4 * width, width, 1);
      if (block == 0) add_convolution(out, 4 * width, from, 1);
      from = 4 * width;
    }
    width *= 2;
  }
  add_linear(out, 1000, from);
  return out;
}

std::vector<Dims> bert_large() {
  constexpr std::size_t kSize = 1024;
  std::vector<Dims> out = {{30522, kSize}, {512, kSize}, {2, kSize}};
  add_norm(out, kSize);
  for (int layer = 0; layer < 24; ++layer) {
    for (int i = 0; i < 4; ++i) add_linear(out, kSize, kSize);
    add_norm(out, kSize);
    add_linear(out, 4 * kSize, kSize);
    add_linear(out, kSize, 4 * kSize);
    add_norm(out, kSize);
  }
  add_linear(out, kSize, kSize);
  return out;
}

const std::map<std::string, std::vector<Dims> (*)()>& makers() {
  static const std::map<std::string, std::vector<Dims> (*)()> kMakers = {
      {"bert-large", bert_large},
      {"resnet50",
       [] {
         return resnet({3, 4, 6, 3});
       }},
      {"resnet152", [] {
         return resnet({3, 8, 36, 3});
       }}};
  return kMakers;
}

}  // namespace

const std::vector<std::string>& known_models() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const auto& [name, make] : makers()) names.push_back(name);
    return names;
  }();
  return kNames;
}

std::vector<Dims> model_shapes(const std::string& model) {
  const auto found = makers().find(model);
  std::string known;
  for (const std::string& name : known_models()) known += " " + name;
  require(found != makers().end(), "[bench] no model '", model,
          "'; known:", known);
  return found->second();
}

}  // namespace sluice
