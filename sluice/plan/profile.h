#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// profile.json: what a step takes on a machine, measured or written by hand.
//
//   format    1
//   model     name of the model
//   machine   where it was measured; date: when. Both may be missing
//   forward   seconds of the forward pass
//   update    seconds of the optimizer; may be missing
//   tensors   [{name, elements, shape, backward, spread}] in forward order.
//             Backward makes the last one first; `backward` are the seconds
//             from the gradient before it to its own. `shape` may be missing;
//             `spread`, of these seconds, too
//   costs     [{what, method, device, points}]: what a stage takes.
//             points: [[size, seconds], ...], two or more, sizes rising
//
// `what` is select (size: elements of a bucket; packing it, for dense ones,
// which only method none tells), encode, decode, merge or apply (size: entries;
// elements of dense ones), sum (elements of a dense vector that are added), or
// copy (fp32 elements that a GPU brings to its host or back, one way).
// `method` is that of `sluice list sparsifiers`, or * (also if missing) for all
// that have no row of their own; dense buckets are of method none. `device` is
// cpu or cuda, and cuda for copies; cpu if missing.

namespace sluice {

// The longest time of a profile or a network, in seconds: 31 years. Longer ones
// are refused, so that the sum over any model and number of workers is finite.
inline constexpr double kMostSeconds = 1e9;

// Seconds by size: straight between the points, flat below the first, on along
// the last two above (never falling). Nothing for nothing.
class CostCurve {
 public:
  struct Point {
    double size = 0;
    double seconds = 0;

    friend bool operator==(const Point&, const Point&) = default;
  };

  CostCurve() = default;  // costs nothing
  // Throws std::invalid_argument unless there are two or more, sizes rise, all
  // is finite and not negative, and neither seconds nor seconds per unit of
  // size exceed kMostSeconds.
  explicit CostCurve(std::vector<Point> points);

  double at(double size) const;
  const std::vector<Point>& points() const { return points_; }

  friend bool operator==(const CostCurve&, const CostCurve&) = default;

 private:
  std::vector<Point> points_;
};

struct StageCost {
  std::string what;
  std::string method = "*";
  std::string device = "cpu";
  CostCurve curve;

  friend bool operator==(const StageCost&, const StageCost&) = default;
};

struct TensorProfile {
  std::string name;
  std::size_t elements = 0;
  std::vector<std::size_t> shape;  // may be empty: not known
  double backward = 0;             // seconds
  double spread = 0;

  friend bool operator==(const TensorProfile&, const TensorProfile&) = default;
};

struct Profile {
  std::string model;
  std::string machine;
  std::string date;
  double forward = 0;
  double update = 0;
  std::vector<TensorProfile> tensors;
  std::vector<StageCost> costs;

  double backward() const;  // of all tensors
  std::vector<std::string> names() const;
  // The row of the method, else that of *, on the device; null if none.
  const CostCurve* find(std::string_view what, std::string_view method,
                        std::string_view device) const;

  friend bool operator==(const Profile&, const Profile&) = default;
};

std::string to_json(const Profile& profile);

// Throw std::invalid_argument, naming tensor or cost, for what makes no sense:
// no tensors, one twice, times below zero, one point, unknown keys.
Profile profile_from_json(std::string_view json);
void check_profile(const Profile& profile);

// Throws std::runtime_error for what cannot be read, too.
Profile read_profile(const std::string& path);

}  // namespace sluice
