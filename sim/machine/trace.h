// What the accelerator did in one inference: its writes of named intermediates, and its operations.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "names.h"  // made by names.py

struct Port {  // the writes of one trace port
    uint32_t bytes = 0;  // of a value, as Verilator holds the port
    std::vector<uint32_t> cycles, addresses;
    std::vector<uint8_t> values;

    void add(uint32_t cycle, uint32_t address, const void* value, uint32_t size) {
        bytes = size;
        cycles.push_back(cycle);
        addresses.push_back(address);
        const auto* first = static_cast<const uint8_t*>(value);
        values.insert(values.end(), first, first + size);
    }
};

struct Trace {
    std::array<Port, PORTS> ports;

    template <typename Top> void record(const Top& t, uint32_t cycle) {
#define RECORD(port, address, signal) ports[port].add(cycle, address, &signal, sizeof signal)
        RECORD_ALL(t, RECORD);
#undef RECORD
    }
};

struct Operation {  // its numbers as they leave the library; stalls[0] are those of no cause
    uint64_t number = 0, first = 0, last = 0, active = 0;
    std::array<uint64_t, CAUSES> stalls{};
};

class Operations {  // cycles of each operation; idle cycles belong to the one whose operand ends them
  public:
    // One cycle. `stall` says why there is no operand in the next one.
    void cycle(uint64_t cycle, bool active, uint32_t number, uint32_t stall) {
        if (active) {
            uint32_t& place = place_[number & 255];
            if (!place) {
                operations_.push_back({number, cycle});
                place = uint32_t(operations_.size());
            }
            Operation& one = operations_[place - 1];
            one.last = cycle;
            one.active++;
            for (int cause = 1; cause < CAUSES; cause++) {
                one.stalls[cause] += waiting_[cause];
                waiting_[cause] = 0;
            }
        }
        if (stall < CAUSES) waiting_[stall]++;
    }
    // In the order in which they began.
    const std::vector<Operation>& all() const { return operations_; }

  private:
    std::vector<Operation> operations_;
    std::array<uint32_t, 256> place_{};
    std::array<uint64_t, CAUSES> waiting_{};
};
