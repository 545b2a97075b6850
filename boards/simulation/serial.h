// The computer's side of a serial line, at its levels: one start bit, eight bits, one stop bit.

#pragma once

#include <cstdint>
#include <deque>
#include <random>

class Serial {
  public:
    std::deque<uint8_t> to_board, from_board;

    explicit Serial(unsigned bit) : bit(bit) {}

    // The line to the board in this cycle.
    bool level() {
        if (noisy > 0) {
            noisy--;
            if (hold == 0) {
                noise_level = random() & 1;
                hold = 1 + random() % (2 * bit);
            }
            hold--;
            return noise_level;
        }
        if (sending == 0 && !to_board.empty()) {
            frame = 1u << 9 | unsigned(to_board.front()) << 1;
            to_board.pop_front();
            sending = 10 * bit;
        }
        if (sending == 0) return true;
        const bool now = frame >> ((10 * bit - sending) / bit) & 1;
        sending--;
        return now;
    }

    // The line from the board in this cycle.
    void sample(bool level) {
        if (left == 0) {
            if (!level) {
                left = 9;
                wait = bit + bit / 2;
            }
            return;
        }
        if (--wait != 0) return;
        wait = bit;
        if (--left != 0)
            byte = uint8_t(byte >> 1 | unsigned(level) << 7);
        else if (level)
            from_board.push_back(byte);
    }

    // Any levels for so many cycles, by a seed; a byte that was on its way is lost.
    void noise(uint64_t cycles, uint64_t seed) {
        noisy = cycles;
        random.seed(seed);
        sending = 0;
    }

    bool quiet() const { return sending == 0 && to_board.empty() && left == 0 && noisy == 0; }

  private:
    const unsigned bit;
    unsigned frame = 0, sending = 0;  // what is sent, and cycles left of it
    unsigned left = 0, wait = 0;      // bits to come of what is received, cycles to the next
    uint8_t byte = 0;
    uint64_t noisy = 0, hold = 0;
    bool noise_level = true;
    std::mt19937_64 random;
};
