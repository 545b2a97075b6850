// An SDR SDRAM chip with 16 data pins that checks how it is used.
//
// `clock` is one rising edge: it takes the pins as they are sampled there and returns what the chip
// drives on DQ until the next. What breaks a rule is noted with the edge, and from then on each word
// that is read comes complemented, so that no answer that depends on luck can be right.
//
// Bursts are of one word. Other lengths, automatic precharge, burst stop, power-down and self-refresh
// are not modelled: they are the violation "unmodelled".

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sdram {

// Times in picoseconds; `period` is that of the clock.
struct Rules {
    uint64_t period, rc, ras, ras_max, rcd, rp, rrd, rfc, wr, mrd, power_up, refresh;
    uint64_t row_bits, column_bits, cas;
};

// As at the chip, but ras, cas and we (from the highest bit of `command` down) are high when active.
struct Pins {
    bool enable;
    unsigned command, bank, address, mask;
    uint16_t o;
    bool oe;
};

struct Answer {
    bool drives;
    uint16_t data;
};

struct Violation {
    const char* rule;
    uint64_t edge;
};

class Chip {
  public:
    std::vector<Violation> violations;
    uint64_t refreshes = 0;

    explicit Chip(const Rules& rules)
        : r(rules), cells(size_t(BANKS) << (rules.row_bits + rules.column_bits)),
          row_refreshed(size_t(1) << rules.row_bits) {}

    // The word at (row, bank, column); before it is written, noise that depends on the address.
    uint16_t peek(uint32_t address) const { return cells[address] ^ noise(address); }
    void poke(uint32_t address, uint16_t word) { cells[address] = word ^ noise(address); }

    // What a fault of the chip would do.
    void flip(uint32_t address, uint16_t bits) { cells[address] ^= bits; }

    Answer clock(const Pins& pins) {
        now = edge * r.period;
        bus(pins);
        wake(pins);
        switch (pins.command) {
            case 0b000: break;
            case 0b100: activate(pins); break;
            case 0b010: column(pins, false); break;
            case 0b011: column(pins, true); break;
            case 0b101: precharge(pins); break;
            case 0b110: refresh(); break;
            case 0b111: mode(pins); break;
            default: broken("unmodelled");
        }
        overdue();
        Answer answer = due[edge % SLOTS];
        due[edge % SLOTS] = {};
        if (mask_before == 3) answer = {};
        mask_before = pins.mask;
        drove_before = drove;
        drove = answer.drives;
        edge++;
        return answer;
    }

  private:
    static constexpr unsigned BANKS = 4, SLOTS = 8, REFRESHES = 8, ALL = 1 << 10;

    struct Bank {
        bool open = false, activated = false, precharged = false, written = false, late = false;
        uint32_t row = 0;
        uint64_t activate = 0, precharge = 0, write = 0;
    };

    Rules r;
    std::vector<uint16_t> cells;
    std::vector<uint64_t> row_refreshed;  // of the chip's own count of rows
    size_t oldest = 0;
    bool late = false;
    Bank banks[BANKS];
    Answer due[SLOTS] = {};
    bool drove = false, drove_before = false;
    unsigned mask_before = 3;
    uint64_t edge = 0, now = 0;
    bool enabled = false, closed_all = false, has_mode = false, refreshed = false;
    uint64_t awake = 0, last_refresh = 0, last_mode = 0;

    static uint16_t noise(uint32_t address) { return uint16_t((address * 2654435761u) >> 13); }

    void broken(const char* rule) {
        if (violations.size() < 10000) violations.push_back({rule, edge});
    }

    bool initialised() const { return has_mode && refreshes >= REFRESHES; }

    // DQ is driven by one side alone: words that were asked for come first, then a cycle of rest.
    void bus(const Pins& pins) {
        bool waits = drove || drove_before;
        for (const Answer& answer : due) waits |= answer.drives;
        if (pins.oe && waits) broken("contention");
    }

    void wake(const Pins& pins) {
        if (!enabled && pins.enable) {
            enabled = true;
            awake = now;
        } else if (enabled && !pins.enable) {
            broken("unmodelled");
        }
        if (pins.command == 0) return;
        if (!enabled || now - awake < r.power_up) broken("power-up");
        if (!initialised() && pins.mask != 3) broken("initialisation");
        if (refreshed && now - last_refresh < r.rfc) broken("tRFC");
        if (has_mode && (now - last_mode < r.mrd || now - last_mode < 2 * r.period)) broken("tMRD");
    }

    void activate(const Pins& pins) {
        Bank& bank = banks[pins.bank];
        if (!initialised()) broken("initialisation");
        if (bank.open) broken("open");
        if (bank.activated && now - bank.activate < r.rc) broken("tRC");
        if (bank.precharged && now - bank.precharge < r.rp) broken("tRP");
        for (const Bank& other : banks)
            if (&other != &bank && other.activated && now - other.activate < r.rrd) broken("tRRD");
        if (pins.address >> r.row_bits) broken("address");
        bank.open = bank.activated = true;
        bank.late = bank.written = false;
        bank.row = pins.address & ((1u << r.row_bits) - 1);
        bank.activate = now;
    }

    void column(const Pins& pins, bool write) {
        Bank& bank = banks[pins.bank];
        if (pins.address & ALL) broken("unmodelled");
        if ((pins.address & ~ALL) >> r.column_bits) broken("address");
        if (!bank.open) return broken("closed");
        if (now - bank.activate < r.rcd) broken("tRCD");
        const uint32_t place = (bank.row << 2 | pins.bank) << r.column_bits |
                               (pins.address & ((1u << r.column_bits) - 1));
        if (!write) {
            due[(edge + r.cas - 1) % SLOTS] = {true, violations.empty() ? peek(place)
                                                                        : uint16_t(~peek(place))};
            return;
        }
        if (!pins.oe) broken("undriven");
        bank.written = true;
        bank.write = now;
        if (pins.mask != 0) return broken("unmodelled");
        poke(place, pins.o);
    }

    void precharge(const Pins& pins) {
        for (unsigned b = 0; b < BANKS; b++) {
            Bank& bank = banks[b];
            if (!(pins.address & ALL) && b != pins.bank) continue;
            if (bank.open) {
                if (now - bank.activate < r.ras) broken("tRAS");
                if (bank.written && now - bank.write < r.wr) broken("tWR");
                bank.open = false;
            } else if (bank.precharged) {
                continue;  // a bank that is closed stays so: its time runs on
            }
            bank.precharged = true;
            bank.precharge = now;
        }
        if (pins.address & ALL) closed_all = true;
    }

    // REFRESH and LOAD MODE: all banks are closed, and have been for long enough.
    void all_closed() {
        if (!closed_all) broken("initialisation");
        for (const Bank& bank : banks) {
            if (bank.open) broken("open");
            if (bank.activated && now - bank.activate < r.rc) broken("tRC");
            if (bank.precharged && now - bank.precharge < r.rp) broken("tRP");
        }
    }

    void refresh() {
        all_closed();
        refreshes++;
        refreshed = true;
        last_refresh = now;
        if (!initialised()) return;
        row_refreshed[oldest] = now;
        oldest = (oldest + 1) % row_refreshed.size();
        late = false;
    }

    void mode(const Pins& pins) {
        all_closed();
        if ((pins.address & 0x1FFF) != r.cas << 4 || pins.bank != 0) broken("mode");
        has_mode = true;
        last_mode = now;
        for (uint64_t& time : row_refreshed) time = now;
    }

    // What is wrong without a command: a row that is open or not refreshed for too long.
    void overdue() {
        for (Bank& bank : banks)
            if (bank.open && !bank.late && now - bank.activate > r.ras_max) {
                bank.late = true;
                broken("tRAS max");
            }
        if (has_mode && !late && now - row_refreshed[oldest] > r.refresh) {
            late = true;
            broken("refresh");
        }
    }
};

}  // namespace sdram
