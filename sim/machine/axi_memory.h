// The accelerator with DMA and its memory, an AXI4 target for reads.
//
// Without rests it is exact, as sim/cycles/dma.py says. All that AXI forbids is a complaint.

#pragma once

#include <cstring>
#include <deque>

#include "machine.h"

class MemoryMachine : public Machine {
  public:
    MemoryMachine(uint32_t data_bytes, uint32_t burst, uint32_t outstanding)
        : data_bytes_(data_bytes), burst_(burst), outstanding_(outstanding) {}

    std::vector<uint8_t> memory;
    uint64_t latency = 1;
    uint64_t beats = 0, bursts = 0;     // given and taken so far
    uint64_t bad_beat = ~uint64_t(0);   // the beat that is asked for as this one, of all, is
    uint32_t bad_response = SLVERR;     // answered like this
    size_t waiting() const { return queue_.size(); }

    void rest(uint64_t of_seed) {
        address_rests_ = Stalls(of_seed != 0, of_seed);
        beat_rests_ = Stalls(of_seed != 0, of_seed + 1);
    }
    // It keeps its words and forgets what it was asked for.
    void reset(uint32_t cycles) override {
        top.m_axi_arready = top.m_axi_rvalid = 0;
        Machine::reset(cycles);
        queue_.clear();
        asked_ = beats;
        offered_ = open_ = false;
    }

  protected:
    void drive() override {
        Vtop& t = top;
        t.m_axi_arready = !address_rests_.rest();
        if (!offered_) offered_ = !queue_.empty() && queue_.front().from <= now && !beat_rests_.rest();
        t.m_axi_rvalid = offered_;
        if (!offered_) return;
        const Beat& beat = queue_.front();
        t.m_axi_rid = 0;
        t.m_axi_rlast = beat.last;
        t.m_axi_rresp = beat.response;
        if (beat.address + data_bytes_ <= memory.size())
            std::memcpy(&t.m_axi_rdata, memory.data() + beat.address, data_bytes_);
    }
    void see() override {
        const Vtop& t = top;
        const Address one{t.m_axi_araddr, uint32_t(t.m_axi_arlen) + 1, t.m_axi_arsize,
                          uint32_t(t.m_axi_arburst) | t.m_axi_arlock << 3 | t.m_axi_arcache << 4
                              | t.m_axi_arprot << 8,
                          t.m_axi_arid};
        if (open_ && !(t.m_axi_arvalid && one == before_))
            complain("an address was withdrawn or changed before it was taken");
        open_ = t.m_axi_arvalid && !t.m_axi_arready;
        before_ = one;
        if (!t.m_axi_rready) complain("RREADY is low");
        if (offered_) {
            queue_.pop_front();
            offered_ = false;
            beats++;
        }
        if (t.m_axi_arvalid && t.m_axi_arready) take(one);
    }

  private:
    static constexpr size_t PAGE = 4096;

    struct Beat {
        uint64_t from, address;
        bool last;
        uint32_t response;
    };
    struct Address {
        uint64_t address;
        uint32_t length, size, rest, id;
        bool operator==(const Address& o) const {
            return address == o.address && length == o.length && size == o.size && rest == o.rest
                   && id == o.id;
        }
    };
    const uint32_t data_bytes_, burst_, outstanding_;
    uint64_t asked_ = 0;
    std::deque<Beat> queue_;
    bool offered_ = false, open_ = false;
    Address before_{};
    Stalls address_rests_, beat_rests_;

    void take(const Address& one) {
        const uint64_t end = one.address + uint64_t(one.length) * data_bytes_;
        if (uint32_t(1) << one.size != data_bytes_ || one.address % data_bytes_
            || one.rest != (1u | 3u << 4))
            complain("a burst of another kind");
        if (one.length > burst_) complain("a burst of " + std::to_string(one.length) + " beats");
        if (one.address / PAGE != (end - 1) / PAGE) complain("a burst crosses 4 KiB");
        if (end > memory.size()) complain("a read beyond the memory, at " + std::to_string(end));
        bursts++;
        if (one.id) complain("a burst of id " + std::to_string(one.id));
        uint32_t open = 1;
        for (const Beat& beat : queue_) open += beat.last;
        if (open > outstanding_) complain("too many bursts under way");
        for (uint32_t i = 0; i < one.length; i++, asked_++)
            queue_.push_back({now + latency + i, one.address + i * data_bytes_, i + 1 == one.length,
                              asked_ == bad_beat ? bad_response : OKAY});
    }
};
