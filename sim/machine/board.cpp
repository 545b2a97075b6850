// A machine as a shared library: a board, whose CPU reaches the registers on a bus. With WITH_MEMORY it
// is the accelerator with DMA and its memory, else the one with streams.
//
// Time passes with each access of the bus and with board_run, never else. A bus has no way to tell the
// CPU that a write was refused but a fault; one is complained of, and so is everything that AXI forbids.

#include <map>

#ifdef WITH_MEMORY
#include "axi_memory.h"
using Around = MemoryMachine;
#else
#include "streams.h"
using Around = StreamMachine;
#endif

class Board : public Around {
  public:
    template <typename... Arguments> Board(uintptr_t base, Arguments... arguments) : Around(arguments...), base(base) {
        reset(4);
    }
    const uintptr_t base;
    uint32_t gap = 0;  // an access begins up to so many cycles after it was asked for
    Random pauses{0};
    uint64_t reads = 0, writes = 0;
    std::map<uint32_t, uint32_t> shown;  // what the bus says in place of a register
#ifndef WITH_MEMORY
    Packets given[3];
    Table table;
#endif

    uint32_t offset_of(uintptr_t address) {
#ifdef WITH_MEMORY
        const uintptr_t span = 0x100 * ids;
#else
        const uintptr_t span = REGISTER_BYTES;
#endif
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
    void pace(uint64_t seed);

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
    board->pace(seed);
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

#ifdef WITH_MEMORY
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
#else
Board* board_open(uintptr_t base, uint32_t lanes) { return bus = new Board(base, lanes); }
// Bytes of a word of the command stream.
uint32_t board_width(Board* board) { return sizeof board->top.s_axis_model_tdata; }
// Words for a source: 0 the command stream, 1 tokens, 2 rows that come by themselves, while requests are
// taken and not answered.
void board_offer(Board* board, uint32_t source, const uint8_t* bytes, size_t size, const uint32_t* lasts,
                 size_t packets) {
    Source* sources[] = {&board->model, &board->tokens, &board->pushed};
    board->given[source] = {{bytes, bytes + size}, {lasts, lasts + packets}};
    sources[source]->load(board->given[source]);
    if (source == 2) board->rows.serve(board->table, 0, 1, Stalls());
}
// Rows of a table, as they are asked for: `words` each, `latency` cycles later.
void board_rows(Board* board, const uint8_t* bytes, size_t size, uint32_t row_bytes, uint32_t words,
                uint32_t latency) {
    board->table = {row_bytes, {bytes, bytes + size}};
    board->rows.serve(board->table, words, latency, Stalls());
}
void board_silence_rows(Board* board, uint64_t cycles) { board->rows.silent_until(board->now + cycles); }
// Whether the sink takes logits: 0 none, 1 all, 2 those of one packet.
void board_take_logits(Board* board, uint32_t take) {
    board->logits_ready = take;
    board->one_packet = take == 2;
}
uint64_t board_model_left(Board* board) { return board->model.left(); }
uint64_t board_tokens_left(Board* board) { return board->tokens.left(); }
uint64_t board_rows_left(Board* board) { return board->rows.pending() + board->pushed.left(); }
// How many logits came since this was asked last; the first `room` of them, and how many were `last`.
size_t board_logits(Board* board, int32_t* into, size_t room, size_t* lasts) {
    const size_t count = board->logits.size();
    for (size_t i = 0; i < count && i < room; i++) into[i] = board->logits[i];
    *lasts = board->lasts.size();
    board->logits.clear();
    board->lasts.clear();
    return count;
}
#endif
}

#ifdef WITH_MEMORY
void Board::pace(uint64_t seed) { rest(seed); }
#else
void Board::pace(uint64_t seed) {
    Random seeds(seed);
    auto stalls = [&] { return Stalls(seed != 0, seeds.next()); };
    for (Source* source : {&model, &tokens, &pushed}) source->pace(0, stalls());
    request_stalls = stalls();
    logits_stalls = stalls();
}
#endif
