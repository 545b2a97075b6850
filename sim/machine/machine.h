// A verilated accelerator: its clock, its reset and its registers. What else is around it, streams.h
// and axi_memory.h add: drive() sets the inputs of a cycle, see() looks at its outputs once they have
// settled. Inputs change while the clock is low.

#pragma once

#include <csignal>
#include <stdexcept>
#include <string>
#include <vector>

#include "Vtop.h"
#include "registers.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

// Of a design that holds mutants: which of them it is.
template <typename Top> auto choose_mutant(Top& top, uint32_t number, int) -> decltype(top.mutant, void()) {
    top.mutant = number;
}
template <typename Top> void choose_mutant(Top&, uint32_t, long) {}

inline volatile std::sig_atomic_t interrupted = 0;  // by Ctrl-C

class Machine {
  public:
    virtual ~Machine() { top.final(); }
    Machine(const Machine&) = delete;

    VerilatedContext context;
    Vtop top{&context};
    uint64_t now = 0;           // the cycle
    Random* coins = nullptr;    // of noise on what is not offered; null: there is none
    RegisterClient registers{top, [this](const std::string& text) { complain(text); }};
    std::vector<std::string> wrong;  // what nobody may do, the first of it

    void complain(const std::string& text) {
        if (wrong.size() < 4) wrong.push_back(text + " in cycle " + std::to_string(now));
    }
    // Verilator renames the port, since `interrupt` is a keyword of some C++ compilers.
    bool interrupt() const { return top.__SYM__interrupt; }
    virtual void reset(uint32_t cycles) {
        top.rst = 1;
        registers.reset();
        for (uint32_t i = 0; i < cycles; i++) {
            top.clk = 0;
            top.eval();
            edge();
        }
        top.rst = 0;
    }
    virtual void cycle() {
        settle();
        edge();
    }
    // Cycles until every transfer of the registers has come to its end.
    void finish_transfers() {
        const uint64_t origin = now;
        while (!registers.idle() && now - origin < ANSWER_CYCLES) cycle();
        if (registers.idle()) return;
        complain("the register file does not answer");
        registers.drop();
    }
    uint32_t read(uint32_t address) {
        registers.queue_read(address);
        finish_transfers();
        return registers.data();
    }
    // The response.
    uint32_t write(uint32_t address, uint32_t data, uint32_t strobe = 15) {
        registers.queue({true, address, strobe, data});
        finish_transfers();
        return registers.response();
    }

  protected:
    Machine() = default;
    virtual void drive() = 0;
    virtual void see() = 0;

    void settle() {
        drive();
        registers.drive();
        top.clk = 0;
        top.eval();
        registers.see(now);
        see();
    }
    void edge() {
        top.clk = 1;
        top.eval();
        now++;
        if (interrupted) throw std::runtime_error("interrupted");
    }
    void watch(Watch& watch, const char* name, bool valid, bool ready, uint64_t word) {
        if (const char* what = watch.cycle(valid, ready, word); *what)
            complain(std::string(name) + " is " + what);
    }

  private:
    static constexpr uint64_t ANSWER_CYCLES = 2000;  // of all that is queued, however slowly answers are taken
};
