// A serial NOR flash in SPI mode 0 that sleeps until it is woken, and knows FAST READ alone.
//
// `cycle` is told the pins once a cycle of some clock; what it would not take is noted.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flash {

// In cycles of that clock: half a period of SCK at least, from WAKE to the next command, and from
// one command to the next.
struct Rules {
    uint64_t half, wake, rest;
};

class Chip {
  public:
    std::vector<uint8_t> data;  // from address `base` on; elsewhere it is erased
    std::vector<std::string> complaints;

    Chip(const Rules& rules, uint32_t base) : r(rules), base(base) {}

    // The pins in a cycle; what the flash drives from then on.
    bool cycle(bool select, bool clock, bool o) {
        now++;
        if (select != selected && clock) complain("select changes while the clock is high");
        if (clock && o != before_o && clock == clocked) complain("data changes while the clock is high");
        if (select && !selected) begin();
        if (!select && selected) end();
        if (select && clock != clocked) {
            if (now - changed < r.half) complain("the clock is too fast");
            changed = now;
            clock ? rising(o) : falling();
        }
        selected = select, clocked = clock, before_o = o;
        return out;
    }

  private:
    static constexpr unsigned WAKE = 0xAB, FAST_READ = 0x0B, HEAD = 40;

    Rules r;
    uint32_t base;
    uint64_t now = 0, changed = 0, deselected = 0, woken_at = 0, bits = 0;
    uint64_t head = 0;  // the first bits of a command
    bool selected = false, clocked = false, before_o = false, out = true, awake = false;

    void complain(const char* what) {
        if (complaints.size() < 100) complaints.push_back(what);
    }

    void begin() {
        if (deselected != 0 && now - deselected < r.rest) complain("selected again too soon");
        bits = head = 0;
        changed = now;
    }

    void end() {
        deselected = now;
        if (bits == 8 && head == WAKE) {
            awake = true;
            woken_at = now;
        }
    }

    void rising(bool o) {
        if (bits < HEAD) head = head << 1 | o;
        bits++;
    }

    void falling() {
        if (bits == 8 && head != WAKE) {
            if (head != FAST_READ) complain("a command that is not modelled");
            if (!awake || now - woken_at < r.wake) complain("it sleeps");
        }
        if (bits < HEAD || !awake) return;
        const uint64_t done = bits - HEAD;
        const uint64_t address = (head >> 8 & 0xFFFFFF) + done / 8;
        const uint8_t byte =
            address >= base && address - base < data.size() ? data[address - base] : 0xFF;
        out = byte >> (7 - done % 8) & 1;
    }
};

}  // namespace flash
