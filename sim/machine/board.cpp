// A machine as a shared library: a board with the accelerator with DMA and its memory, whose CPU reaches
// the registers on a bus.
//
// Time passes with each access of the bus and with board_run, never else. A bus has no way to tell the
// CPU that a write was refused but a fault; one is complained of, and so is everything that AXI forbids.

#include <map>

#include "axi_memory.h"

class Board : public MemoryMachine {
  public:
    template <typename... Arguments>
    Board(uintptr_t base, Arguments... arguments) : MemoryMachine(arguments...), base(base) {
        reset(4);
    }
    const uintptr_t base;
    uint32_t gap = 0;  // an access begins up to so many cycles after it was asked for
    Random pauses{0};
    uint64_t reads = 0, writes = 0;
    std::map<uint32_t, uint32_t> shown;  // what the bus says in place of a register

    uint32_t offset_of(uintptr_t address) {
        const uintptr_t span = 0x100 * ids;
        if (address < base || address >= base + span || address % 4)
            complain("a bus fault: nothing is at " + std::to_string(address));
        return uint32_t(address - base);
    }
    uint32_t read_register(uint32_t offset) {
        pause();
        reads++;
        if (const auto found = shown.find(offset); found != shown.end()) return found->second;
        const uint32_t data = read(offset);
        if (registers.response() != OKAY) complain("a bus fault: the read of " + std::to_string(offset));
        return data;
    }
    // The response.
    uint32_t write_register(uint32_t offset, uint32_t data, uint32_t strobe) {
        pause();
        writes++;
        return write(offset, data, strobe);
    }

  private:
    void pause() {
        for (uint64_t i = gap ? pauses.next() % (gap + 1) : 0; i > 0; i--) cycle();
    }
};

namespace {
Board* bus = nullptr;  // what bus_read and bus_write reach: the latest board
}

extern "C" {

void board_close(Board* board) {
    if (bus == board) bus = nullptr;
    delete board;
}
void board_reset(Board* board, uint32_t cycles) { board->reset(cycles); }
void board_pace(Board* board, uint64_t seed, uint32_t gap) {
    board->rest(seed);
    board->pauses = Random(seed);
    board->gap = gap;
}
uint32_t board_read(Board* board, uint32_t offset) { return board->read_register(offset); }
uint32_t board_write(Board* board, uint32_t offset, uint32_t data, uint32_t strobe) {
    return board->write_register(offset, data, strobe);
}
// A register that reads as this from now on, as that of another device would.
void board_show(Board* board, uint32_t offset, uint32_t value) { board->shown[offset] = value; }
void board_run(Board* board, uint64_t cycles) {
    while (cycles--) board->cycle();
}
// Whether one of these interrupts is raised, bit k that of core k, after `most` cycles at the latest.
int board_until_interrupt(Board* board, uint64_t most, uint64_t lines) {
    while (most-- && !(board->interrupts() & lines)) board->cycle();
    return (board->interrupts() & lines) != 0;
}
uint64_t board_now(Board* board) { return board->now; }
uint64_t board_reads(Board* board) { return board->reads; }
uint64_t board_writes(Board* board) { return board->writes; }
// The first complaint, "" when there is none; all are forgotten with that.
void board_complaint(Board* board, char* into, size_t room) {
    std::snprintf(into, room, "%s", board->wrong.empty() ? "" : board->wrong.front().c_str());
    board->wrong.clear();
}
// As a CPU reaches it: what is refused is a fault.
uint32_t bus_read(uintptr_t address) { return bus ? bus->read_register(bus->offset_of(address)) : 0; }
void bus_write(uintptr_t address, uint32_t value) {
    if (!bus) return;
    const uint32_t offset = bus->offset_of(address);
    if (bus->write_register(offset, value, 15) != OKAY)
        bus->complain("a bus fault: the write of " + std::to_string(value) + " to " + std::to_string(offset));
}

Board* board_open(uintptr_t base, uint32_t data_bytes, uint32_t burst, uint32_t outstanding, uint32_t cores) {
    return bus = new Board(base, data_bytes, burst, outstanding, cores);
}
void board_hold(Board* board, const uint8_t* bytes, size_t size) { board->memory.assign(bytes, bytes + size); }
void board_latency(Board* board, uint64_t cycles) { board->latency = cycles; }
void board_bad_beat(Board* board, uint64_t beat, uint32_t response) {
    board->bad_beat = beat;
    board->bad_response = response;
}
uint64_t board_beats(Board* board) { return board->beats; }
uint64_t board_bursts(Board* board) { return board->bursts; }
uint64_t board_waiting(Board* board) { return board->waiting(); }
}
