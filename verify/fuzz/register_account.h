// What every read of the register file must give: the fixed registers, and an account of the others
// that counts what the ports show in each cycle.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "names.h"  // made by sim/harness/names.py

class RegisterAccount {
  public:
    explicit RegisterAccount(const std::map<uint32_t, uint32_t>& fixed) : fixed_(fixed) {}

    void reset() {
        busy_ = done_ = blind_ = false;
        failed_ = 0;
        enabled_ = true;
        for (auto* counts : {&counts_, &coming_, &happened_}) counts->fill(0);
    }
    void begin() {  // in the first cycle of an inference
        busy_ = true;
        done_ = blind_ = false;
        failed_.reset();
        for (auto* counts : {&counts_, &coming_, &happened_}) counts->fill(0);
    }
    void enable(bool on) { enabled_ = on; }
    // Before the reads of a cycle; `interrupt` shows in the first cycle after an inference.
    void see(bool interrupt) {
        if (!busy_) return;
        if (interrupt) {
            busy_ = false;
            done_ = true;
        } else if (!enabled_) {
            blind_ = true;  // its end cannot be seen
        }
    }
    // After the reads of a cycle. A counter has it three cycles later.
    void count(bool active, uint32_t stall) {
        counts_ = coming_;
        coming_ = happened_;
        if (!busy_) return;
        happened_[0]++;
        happened_[1] += active;
        if (stall > 0 && stall < CAUSES) happened_[1 + stall]++;
    }
    // What a read of this address gives whose address is taken in this cycle; nothing: not known.
    std::optional<uint32_t> expected(uint32_t address) const {
        using namespace registers;
        address &= ~3u;
        if (const auto known = fixed_.find(address); known != fixed_.end()) return known->second;
        if (address == INTERRUPT_ENABLE) return enabled_;
        if (address == STATUS || address == INTERRUPT_PENDING) return std::nullopt;
        if (blind_) return std::nullopt;
        if (address == FAILED_SEQUENCE) {  // while it runs it may have failed already
            if (busy_) return std::nullopt;
            if (done_) return failed_;
        }
        if (address == CYCLES) return counts_[0];
        if (address == ACTIVE) return counts_[1];
        for (int cause = 0; cause < CAUSES - 1; cause++)
            if (address == STALLS[cause]) return counts_[2 + cause];
        return 0;
    }
    // What `failed_sequence` said after the end: it stays.
    void failed(uint32_t sequence) { failed_ = sequence; }
    // Bits 0 and 1 of `status`, where they are known.
    std::optional<uint32_t> status() const {
        if (blind_) return std::nullopt;
        return uint32_t(busy_) | uint32_t(done_) << 1;
    }

  private:
    const std::map<uint32_t, uint32_t>& fixed_;
    bool busy_ = false, done_ = false, enabled_ = true, blind_ = false;
    std::optional<uint32_t> failed_ = 0;
    std::array<uint64_t, 1 + CAUSES> counts_{}, coming_{}, happened_{};  // cycles, active, each cause
};
