// What every access of the register file must give: the fixed registers, and an account of the others
// that counts what the ports show in each cycle.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "names.h"  // made by names.py

constexpr uint32_t START = 1, ABORT = 2;  // bits of CONTROL
constexpr uint32_t DONE = 2;              // of STATUS
constexpr uint32_t OKAY = 0, SLVERR = 2;  // responses

struct Transfer {
    bool write;
    uint32_t address, strobe, data;
    bool noise = false;  // a read that nobody asked for
};

class Account {
  public:
    // fixed: registers that always read the same, by address.
    explicit Account(const std::map<uint32_t, uint32_t>& fixed) : fixed_(fixed) {}

    void reset() {
        busy_ = done_ = blind_ = false;
        failed_ = 0;
        enabled_ = true;
        for (auto* counts : {&counts_, &coming_, &happened_}) counts->fill(0);
    }
    // Before the transfers of a cycle; `interrupt` shows in the first cycle after an inference.
    void see(bool interrupt, bool under_way) {
        under_way_ = under_way;
        if (!busy_) return;
        if (interrupt) {
            busy_ = false;
            done_ = true;
        } else if (!enabled_) {
            blind_ = true;  // its end cannot be seen
        }
    }
    // After the transfers of a cycle. A counter has it three cycles later.
    void count(bool active, uint32_t stall) {
        counts_ = coming_;
        coming_ = happened_;
        if (!busy_) return;
        happened_[0]++;
        happened_[1] += active;
        if (stall > 0 && stall < CAUSES) happened_[1 + stall]++;
    }
    // Starts that were accepted so far; whether the interrupt is enabled.
    uint32_t starts() const { return starts_; }
    bool enabled() const { return enabled_; }
    // What `failed_sequence` said after the end: it stays.
    void failed(uint32_t sequence) { failed_ = sequence; }

    // A write is answered: what is wrong, "" for nothing. The cycle before, it has acted.
    std::string written(const Transfer& write, uint32_t response) {
        using namespace registers;
        const uint32_t address = write.address & ~3u;
        const bool control = address == CONTROL;
        const bool start = control && (write.data & 3) == START;
        const bool acts = (control || address == INTERRUPT_ENABLE || address == INTERRUPT_PENDING) &&
                          (write.strobe & 1) && !(start && under_way_);
        if (address == INTERRUPT_ENABLE && acts) enabled_ = write.data & 1;
        if (start && acts) begin();
        if (response == (acts ? OKAY : SLVERR)) return "";
        return "a write of the register at " + std::to_string(address) + " is answered with " +
               std::to_string(response);
    }
    // The address of a read is taken: its data are of this cycle.
    void asked(const Transfer& read) {
        expected_ = expected(read.address & ~3u);
        status_ = (read.address & ~3u) == registers::STATUS && !blind_
                      ? std::optional<uint32_t>(uint32_t(busy_) | uint32_t(done_) << 1)
                      : std::nullopt;
    }
    // It is answered: what is wrong, "" for nothing.
    std::string answered(const Transfer& read, uint32_t response, uint32_t data) const {
        auto reads = [&](const std::string& text) {
            return "the register at " + std::to_string(read.address) + " reads " + text;
        };
        if (response != OKAY) return reads("with an error");
        if (expected_ && data != *expected_)
            return reads(std::to_string(data) + ", not " + std::to_string(*expected_));
        if (status_ && (data & 3) != *status_)
            return reads(std::to_string(data) + ", its low bits are " + std::to_string(*status_));
        return "";
    }

  private:
    const std::map<uint32_t, uint32_t>& fixed_;
    bool busy_ = false, done_ = false, enabled_ = true, blind_ = false, under_way_ = false;
    uint32_t starts_ = 0;
    std::optional<uint32_t> failed_ = 0;
    std::array<uint64_t, 1 + CAUSES> counts_{}, coming_{}, happened_{};  // cycles, active, each cause
    std::optional<uint32_t> expected_, status_;  // of the read in hand

    void begin() {  // in the first cycle of an inference
        busy_ = true;
        done_ = blind_ = false;
        starts_++;
        failed_.reset();
        for (auto* counts : {&counts_, &coming_, &happened_}) counts->fill(0);
    }
    // What a read gives whose address is taken in this cycle; nothing: not known.
    std::optional<uint32_t> expected(uint32_t address) const {
        using namespace registers;
        if (const auto known = fixed_.find(address); known != fixed_.end()) return known->second;
        if (address == INTERRUPT_ENABLE) return enabled_;
        if (address == STATUS || address == INTERRUPT_PENDING) return std::nullopt;
        if (blind_) return std::nullopt;
        if (address == FAILED_SEQUENCE) {  // while it runs it may have failed already
            if (busy_) return std::nullopt;
            if (done_) return failed_;
        }
        for (int i = 0; i < 1 + CAUSES; i++)
            if (address == COUNTERS[i]) return counts_[i];
        return 0;
    }
};
