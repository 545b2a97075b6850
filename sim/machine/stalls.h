// Numbers by a seed, when the end of a stream rests, and the rule of AXI that a word which was offered
// stays as it is until it is taken.

#pragma once

#include <cstdint>
#include <optional>

class Random {  // splitmix64, Steele, Lea and Flood, 2014
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

  private:
    uint64_t state_;
};

class Stalls {  // whether a stream's end rests in a cycle; how often is drawn once
  public:
    Stalls() : Stalls(false, 0) {}
    Stalls(bool on, uint64_t seed) : random_(seed) {
        static const uint32_t sixteenths[] = {0, 4, 8, 14};
        chance_ = on ? sixteenths[random_.next() & 3] : 0;
    }
    bool rest() { return chance_ && (random_.next() & 15) < chance_; }

  private:
    Random random_;
    uint32_t chance_;
};

class Watch {
  public:
    // What is wrong in this cycle, "" for nothing.
    const char* cycle(bool valid, bool ready, uint64_t word) {
        const char* wrong = "";
        if (held_ && !valid) wrong = "withdrawn";
        if (held_ && valid && *held_ != word) wrong = "changed";
        held_.reset();
        if (valid && !ready) held_ = word;
        return wrong;
    }
    void reset() { held_.reset(); }

  private:
    std::optional<uint64_t> held_;
};
