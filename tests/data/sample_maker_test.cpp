#include "sluice/data/sample_maker.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "files.h"

namespace sluice::testing {
namespace {

// Sample i is i and its random bits; sample 13 fails, 17 is replaced by 18.
class Numbers final : public Dataset {
 public:
  Numbers() : Dataset({1, 1, 2, 100}) {}
  std::size_t size() const override { return 100; }
  std::int64_t label(std::size_t index) const override {
    return static_cast<std::int64_t>(index);
  }
  Rendered render(std::size_t index, std::optional<std::uint64_t> random,
                  std::span<float> out) const override {
    // Late ones finish first.
    if (index % 5 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
    if (index == 13 && fails) throw std::runtime_error("no 13");
    out[0] = static_cast<float>(index);
    out[1] = random ? static_cast<float>(*random >> 40) : -1;
    ++made;
    if (index == 17) return {18, "17 is odd"};
    return {label(index)};
  }

  mutable std::atomic<int> made = 0;
  bool fails = false;
};

struct Room {
  explicit Room(std::size_t n) : images(2 * n), labels(n) {}
  Order order(std::uint64_t first, std::optional<std::uint64_t> key) {
    Order order = {{}, key, images.data(), labels.data()};
    for (std::uint64_t i = 0; i < labels.size(); ++i) {
      order.indices.push_back(first + i);
    }
    return order;
  }
  std::vector<float> images;
  std::vector<std::int64_t> labels;
};

TEST(SampleMaker, MakesTheSameWithAnyNumberOfThreads) {
  const Numbers data;
  Room plain(10);
  const Order order = plain.order(3, 77);
  for (std::size_t i = 0; i < 10; ++i) make_sample(data, order, i);
  EXPECT_EQ(plain.labels[4], 7);
  EXPECT_EQ(plain.images[8], 7);
  EXPECT_GE(plain.images[9], 0);
  for (const std::size_t threads : {1, 2, 7}) {
    SampleMaker maker(data, threads);
    std::vector<Room> rooms(4, Room(10));
    for (Room& room : rooms) maker.push(room.order(3, 77));
    for (Room& room : rooms) {
      const BatchOutcome outcome = maker.pop();
      EXPECT_EQ(room.images, plain.images);
      EXPECT_EQ(room.labels, plain.labels);
      EXPECT_EQ(outcome.replaced, 0U);
    }
  }
}

TEST(SampleMaker, GivesNoRandomBitsWithoutAKey) {
  const Numbers data;
  SampleMaker maker(data, 2);
  Room room(3);
  maker.push(room.order(0, {}));
  maker.pop();
  EXPECT_EQ(room.images, (std::vector<float>{0, -1, 1, -1, 2, -1}));
}

TEST(SampleMaker, CountsWhatWasReplaced) {
  const Numbers data;
  SampleMaker maker(data, 3);
  Room room(10);
  maker.push(room.order(12, {}));
  const BatchOutcome outcome = maker.pop();
  EXPECT_EQ(outcome.replaced, 1U);
  EXPECT_EQ(outcome.problem, "17 is odd");
  EXPECT_EQ(room.labels[5], 18);
}

TEST(SampleMaker, ThrowsAtTheOrderThatFailed) {
  Numbers data;
  data.fails = true;
  SampleMaker maker(data, 3);
  std::vector<Room> rooms(3, Room(10));
  for (std::size_t i = 0; i < 3; ++i) maker.push(rooms[i].order(10 * i, {}));
  maker.pop();
  EXPECT_EQ(message_of<std::runtime_error>([&] { maker.pop(); }), "no 13");
  maker.pop();
  EXPECT_EQ(rooms[2].labels[9], 29);
}

TEST(SampleMaker, ForgetsAndGoesOn) {
  const Numbers data;
  SampleMaker maker(data, 2);
  {
    std::vector<Room> rooms(3, Room(30));
    for (Room& room : rooms) maker.push(room.order(0, {}));
    maker.forget();
    const int made = data.made;
    // Nobody writes to the rooms, which are gone.
    rooms.clear();
    EXPECT_EQ(data.made, made);
  }
  Room room(5);
  maker.push(room.order(50, {}));
  maker.pop();
  EXPECT_EQ(room.labels.back(), 54);
}

TEST(SampleMaker, StopsWithOrdersLeft) {
  const Numbers data;
  Room room(90);
  {
    SampleMaker maker(data, 2);
    maker.push(room.order(0, {}));
  }
  // Nobody writes any more.
  room = Room(90);
  EXPECT_EQ(std::count(room.labels.begin(), room.labels.end(), 0), 90);
  const SampleMaker idle(data, 3);
}

}  // namespace
}  // namespace sluice::testing
