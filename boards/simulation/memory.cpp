// The verilated SDRAM controller with its chip, as a shared library: whole lists of requests.

#include "Vtop.h"
#include "sdram.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

struct Memory {
    VerilatedContext context;
    Vtop top{&context};
    sdram::Chip chip;
    uint64_t cycles = 0;

    explicit Memory(const sdram::Rules& rules) : chip(rules) { top.eval(); }

    void tick() {
        top.eval();
        const auto answer = chip.clock({top.pins_enable != 0, top.pins_command, top.pins_bank,
                                        top.pins_address, top.pins_mask, top.pins_o,
                                        top.pins_oe != 0});
        top.clk = 1;
        top.eval();
        top.clk = 0;
        top.pins_i = answer.drives ? answer.data : 0xBAD0;
        cycles++;
    }
};

extern "C" {

Memory* memory_open(const uint64_t* t) {
    return new Memory({t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], t[10], t[11],
                       t[12], t[13], t[14]});
}

void memory_close(Memory* m) {
    m->top.final();
    delete m;
}

// Cycles until the chip is initialised.
uint64_t memory_start(Memory* m) {
    while (!m->top.ready && m->cycles < 1'000'000) m->tick();
    return m->cycles;
}

// Plays requests (as the port has them) with the words to write; the words read go to `take`.
// The cycles from the first request to the last word; 0 where nothing moved for 10,000.
uint64_t memory_play(Memory* m, uint64_t requests, const uint64_t* request, uint64_t words,
                     const uint16_t* give, uint64_t expected, uint16_t* take) {
    Vtop& top = m->top;
    const uint64_t begin = m->cycles;
    uint64_t asked = 0, given = 0, taken = 0, silent = 0;
    top.read___05Fready = 1;
    while (asked < requests || given < words || taken < expected) {
        top.request___05Fvalid = asked < requests;
        if (asked < requests) top.request___05Fpayload = request[asked];
        top.write___05Fvalid = given < words;
        if (given < words) top.write___05Fpayload = give[given];
        top.eval();
        const bool asks = top.request___05Fvalid && top.request___05Fready;
        const bool gives = top.write___05Fvalid && top.write___05Fready;
        const bool takes = top.read___05Fvalid;
        if (takes && taken < expected) take[taken] = top.read___05Fpayload;
        asked += asks, given += gives, taken += takes;
        silent = asks || gives || takes ? 0 : silent + 1;
        if (silent > 10'000) return 0;
        m->tick();
    }
    top.request___05Fvalid = top.write___05Fvalid = 0;
    return m->cycles - begin;
}

void memory_idle(Memory* m, uint64_t cycles) {
    while (cycles--) m->tick();
}

const sdram::Chip* memory_chip(const Memory* m) { return &m->chip; }
}

#include "chip.cpp"  // chip_violations and its like, of `memory_chip`
