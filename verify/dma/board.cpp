// The accelerator with DMA as a shared library: the verilated design, a memory, and a bus.
//
// Time passes with each access of the bus and with board_run, never else. Without rests the memory
// is exact, so that a cycle model can mirror it: an address is taken in the cycle in which it is
// offered; the beats of the burst taken in cycle t come one a cycle from cycle t + latency on, after
// those of the bursts before. Everything that AXI forbids is a complaint.

#include <deque>
#include <string>
#include <vector>

#include "../../sim/harness/registers.h"
#include "../../sim/harness/streams.h"
#include "Vtop.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

constexpr size_t PAGE = 4096;

struct Beat {
    uint64_t from, address;
    bool last;
    uint32_t response;
};
struct Address {
    uint64_t address;
    uint32_t length, size, rest;
    bool operator==(const Address& o) const {
        return address == o.address && length == o.length && size == o.size && rest == o.rest;
    }
};

}  // namespace

class Board {
  public:
    Board(uint32_t data_bytes, uint32_t burst, uint32_t outstanding)
        : data_bytes_(data_bytes), burst_(burst), outstanding_(outstanding) {
        reset(4);
    }
    ~Board() { top_.final(); }

    std::vector<uint8_t> memory;
    uint64_t latency = 1;
    uint64_t beats = 0, bursts = 0;  // given and taken so far
    uint64_t bad_beat = ~uint64_t(0);
    uint32_t bad_response = SLVERR;
    std::string complaint;

    uint32_t gap = 0;      // cycles before each access of the bus

    void complain(const std::string& text) {
        if (complaint.empty()) complaint = text + " in cycle " + std::to_string(now_);
    }
    bool interrupt() const { return top_.__SYM__interrupt; }
    uint64_t now() const { return now_; }
    size_t waiting() const { return queue_.size(); }
    void rests(uint64_t of_seed) {
        address_rests_ = Stalls(of_seed != 0, of_seed);
        beat_rests_ = Stalls(of_seed != 0, of_seed + 1);
    }
    // The memory lives on unless it is told to forget.
    void reset(uint32_t cycles) {
        Vtop& t = top_;
        t.rst = 1;
        t.m_axi_arready = t.m_axi_rvalid = 0;
        idle_registers(t);
        for (uint32_t i = 0; i < cycles; i++, now_++) {
            t.clk = 0;
            t.eval();
            edge();
        }
        t.rst = 0;
        queue_.clear();
        asked_ = beats;
        offered_ = open_ = false;
        settled_ = ~uint64_t(0);
    }
    void cycle() {
        settle();
        const Vtop& t = top_;
        const Address one{t.m_axi_araddr, uint32_t(t.m_axi_arlen) + 1, t.m_axi_arsize,
                          uint32_t(t.m_axi_arburst) | t.m_axi_arid << 2 | t.m_axi_arlock << 3
                              | t.m_axi_arcache << 4 | t.m_axi_arprot << 8};
        if (open_ && !(t.m_axi_arvalid && one == before_))
            complain("an address was withdrawn or changed before it was taken");
        open_ = t.m_axi_arvalid && !ready_;
        before_ = one;
        if (!t.m_axi_rready) complain("RREADY is low");
        if (offered_) {
            queue_.pop_front();
            offered_ = false;
            beats++;
        }
        if (t.m_axi_arvalid && ready_) take(one);
        edge();
        now_++;
    }
    uint32_t read(uint32_t address) {
        for (uint32_t i = 0; i < gap; i++) cycle();
        const Answer answer = read_register(*this, top_, address);
        if (!answer.came) complain("a read is not answered");
        if (answer.response != OKAY)
            complain("a read of register " + std::to_string(address) + " is refused");
        return answer.data;
    }
    // The response.
    uint32_t write(uint32_t address, uint32_t data, uint32_t strobe) {
        for (uint32_t i = 0; i < gap; i++) cycle();
        const Answer answer = write_register(*this, top_, address, data, strobe);
        if (!answer.came) complain("a write is not answered");
        return answer.response;
    }
    // The first half of a cycle: the memory says what it does in it, once; outputs follow.
    void settle() {
        Vtop& t = top_;
        if (settled_ != now_) {
            settled_ = now_;
            ready_ = !address_rests_.rest();
            if (!offered_)
                offered_ = !queue_.empty() && queue_.front().from <= now_ && !beat_rests_.rest();
        }
        t.m_axi_arready = ready_;
        t.m_axi_rvalid = offered_;
        t.m_axi_rid = 0;
        if (offered_) {
            const Beat& beat = queue_.front();
            t.m_axi_rlast = beat.last;
            t.m_axi_rresp = beat.response;
            if (beat.address + data_bytes_ <= memory.size())
                std::memcpy(&t.m_axi_rdata, memory.data() + beat.address, data_bytes_);
        }
        t.clk = 0;
        t.eval();
    }

  private:
    const uint32_t data_bytes_, burst_, outstanding_;
    VerilatedContext context_;
    Vtop top_{&context_};
    uint64_t now_ = 0, settled_ = ~uint64_t(0), asked_ = 0;
    std::deque<Beat> queue_;
    bool offered_ = false, ready_ = false, open_ = false;
    Address before_{};
    Stalls address_rests_{false, 0}, beat_rests_{false, 0};

    void take(const Address& one) {
        const uint64_t end = one.address + uint64_t(one.length) * data_bytes_;
        if (uint32_t(1) << one.size != data_bytes_ || one.address % data_bytes_
            || one.rest != (1u | 3u << 4))
            complain("a burst of another kind");
        if (one.length > burst_) complain("a burst of " + std::to_string(one.length) + " beats");
        if (one.address / PAGE != (end - 1) / PAGE) complain("a burst crosses 4 KiB");
        if (end > memory.size()) complain("a read beyond the memory, at " + std::to_string(end));
        bursts++;
        uint32_t open = 1;
        for (const Beat& beat : queue_) open += beat.last;
        if (open > outstanding_) complain("too many bursts under way");
        for (uint32_t i = 0; i < one.length; i++, asked_++)
            queue_.push_back({now_ + latency + i, one.address + i * data_bytes_, i + 1 == one.length,
                              asked_ == bad_beat ? bad_response : OKAY});
    }
    void edge() {
        top_.clk = 1;
        top_.eval();
    }
};

namespace {
Board* on_the_bus = nullptr;
uintptr_t bus_base = 0;
}  // namespace

extern "C" {
Board* board_open(uint32_t data_bytes, uint32_t burst, uint32_t outstanding, size_t base) {
    bus_base = base;
    return on_the_bus = new Board(data_bytes, burst, outstanding);
}
void board_close(Board* board) {
    if (on_the_bus == board) on_the_bus = nullptr;
    delete board;
}
void board_memory(Board* board, const uint8_t* bytes, size_t size) {
    board->memory.assign(bytes, bytes + size);
}
void board_pace(Board* board, uint64_t latency, uint64_t seed, uint32_t gap) {
    board->latency = latency;
    board->gap = gap;
    board->rests(seed);
}
// The beat that is asked for as this one, counted from the first of all, is answered like this.
void board_bad_beat(Board* board, uint64_t beat, uint32_t response) {
    board->bad_beat = beat;
    board->bad_response = response;
}
uint32_t board_read(Board* board, uint32_t address) { return board->read(address); }
uint32_t board_write(Board* board, uint32_t address, uint32_t data, uint32_t strobe) {
    return board->write(address, data, strobe);
}
void board_reset(Board* board, uint32_t cycles) { board->reset(cycles); }
void board_run(Board* board, uint64_t cycles) {
    for (uint64_t i = 0; i < cycles; i++) board->cycle();
}
int board_until_interrupt(Board* board, uint64_t most) {
    for (uint64_t i = 0; i < most && !board->interrupt(); i++) board->cycle();
    return board->interrupt();
}
uint64_t board_now(Board* board) { return board->now(); }
uint64_t board_beats(Board* board) { return board->beats; }
uint64_t board_bursts(Board* board) { return board->bursts; }
uint64_t board_waiting(Board* board) { return board->waiting(); }
void board_complaint(Board* board, char* into, size_t size) {
    std::snprintf(into, size, "%s", board->complaint.c_str());
    board->complaint.clear();
}
// As a CPU reaches it: what is refused is a fault.
uint32_t bus_read(uintptr_t address) { return on_the_bus->read(uint32_t(address - bus_base)); }
void bus_write(uintptr_t address, uint32_t value) {
    if (on_the_bus->write(uint32_t(address - bus_base), value, 15) != OKAY)
        on_the_bus->complain("a bus fault: the write of " + std::to_string(value) + " to register "
                             + std::to_string(address - bus_base));
}
}
