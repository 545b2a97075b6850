// A verilated unit as a shared library: its ports as memory, a clock, and whole streams.
//
// Inputs change while the clock is low, as in the other benches; outputs are read then.

#include <cstdint>
#include <cstring>

#include "Vtop.h"
#include "ports.h"  // made by sim/machine/unit.py
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

struct Unit {
    VerilatedContext context;
    Vtop top{&context};
};

void tick(Vtop& top) {
    top.clk = 1;
    top.eval();  // logic follows the inputs before registers take it
    top.clk = 0;
    top.eval();
}

}  // namespace

extern "C" {

Unit* unit_open() { return new Unit; }

void unit_close(Unit* unit) {
    unit->top.final();
    delete unit;
}

// Where a port lies, by its place in the list of ports.
void* unit_port(Unit* unit, int port) {
    Vtop& t = unit->top;
    switch (port) { PORT_CASES }
    return nullptr;
}

int unit_size(int port) { return PORT_SIZES[port]; }

void unit_settle(Unit* unit) { unit->top.eval(); }  // the clock is low between ticks

void unit_tick(Unit* unit) { tick(unit->top); }

// Give word t of every input in cycle t, keep what every output shows `latency` cycles later.
void unit_stream(Unit* unit, int inputs, const int* input_ports, const uint8_t* const* given,
                 int outputs, const int* output_ports, uint8_t* const* taken, uint64_t cycles,
                 uint64_t latency) {
    for (uint64_t cycle = 0; cycle < cycles + latency; cycle++) {
        for (int i = 0; cycle >= latency && i < outputs; i++) {
            const size_t size = PORT_SIZES[output_ports[i]];
            std::memcpy(taken[i] + (cycle - latency) * size, unit_port(unit, output_ports[i]), size);
        }
        for (int i = 0; cycle < cycles && i < inputs; i++) {
            const size_t size = PORT_SIZES[input_ports[i]];
            std::memcpy(unit_port(unit, input_ports[i]), given[i] + cycle * size, size);
        }
        tick(unit->top);
    }
}
}
