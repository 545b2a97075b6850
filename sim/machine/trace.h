// What the accelerator did in one inference: its writes of named intermediates, and its operations.

#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
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

struct Writes {
    std::array<Port, PORTS> ports;

    template <typename Top> void record(const Top& t, uint32_t cycle) {
#define RECORD(port, address, signal) ports[port].add(cycle, address, &signal, sizeof signal)
        RECORD_ALL(t, RECORD);
#undef RECORD
    }
    // For each port: number of writes, bytes of a value, cycles, addresses, values.
    void save(const std::string& path) const {
        std::FILE* file = std::fopen(path.c_str(), "wb");
        if (!file) throw std::runtime_error("cannot write " + path);
        bool good = true;
        auto put = [&](const void* from, size_t bytes) {
            good = good && (bytes == 0 || std::fwrite(from, 1, bytes, file) == bytes);
        };
        for (const auto& port : ports) {
            const uint32_t head[] = {uint32_t(port.cycles.size()), port.bytes};
            put(head, sizeof head);
            put(port.cycles.data(), port.cycles.size() * 4);
            put(port.addresses.data(), port.addresses.size() * 4);
            put(port.values.data(), port.values.size());
        }
        if (std::fclose(file) != 0 || !good) throw std::runtime_error("cannot write " + path);
    }
};

struct Operation {
    uint32_t number = 0;
    uint64_t first = 0, last = 0, active = 0;
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
