// The verilated accelerator as a shared library: with streams and what plays inferences on them
// (player.h), or with DMA and its memory (axi_memory.h). machine.py and board.py call it.
//
// Time passes in machine_play, with each access of the registers, and where a function says so, never
// else. What a call throws, and what Verilator finds fatal, machine_failure tells.

#include <cstdio>
#include <cstring>
#include <unistd.h>

#include "names.h"
#if DMA
#include "axi_memory.h"
using Surrounded = MemoryMachine;
#else
#include "player.h"
using Surrounded = Player;
#endif
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

void vl_fatal(const char*, int, const char*, const char* message) { throw std::runtime_error(message); }

class Host;

namespace {

std::string failure;
Host* bus = nullptr;  // of several boards the latest, which bus_read and bus_write reach

// While it lives, what kills this process names the inference, and Ctrl-C ends it.
class Named {
  public:
    explicit Named(const char* name) {
        std::snprintf(text_, sizeof text_, "%s: the simulation died\n", name);
        struct sigaction action {};
        for (size_t i = 0; i < SIGNALS; i++) {
            action.sa_handler = signals_[i] == SIGINT ? stop : die;
            sigaction(signals_[i], &action, &before_[i]);
        }
        interrupted = 0;
        if (before_[0].sa_handler == SIG_IGN) sigaction(SIGINT, &before_[0], nullptr);
    }
    ~Named() { restore(); }

  private:
    static constexpr size_t SIGNALS = 6;
    inline static const int signals_[SIGNALS] = {SIGINT, SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
    inline static struct sigaction before_[SIGNALS];
    inline static char text_[200];

    static void restore() {
        for (size_t i = 0; i < SIGNALS; i++) sigaction(signals_[i], &before_[i], nullptr);
    }
    static void stop(int) { interrupted = 1; }
    static void die(int signal) {
        if (write(STDERR_FILENO, text_, std::strlen(text_)) < 0) _exit(3);
        restore();
        raise(signal);
    }
};

template <typename F> auto guarded(F call) -> decltype(call()) {
    try {
        return call();
    } catch (const std::exception& error) {
        failure = error.what();
        return {};
    }
}

}  // namespace

class Host : public Surrounded {
  public:
    using Surrounded::Surrounded;
    uint32_t gap = 0;  // an access begins up to so many cycles after it was asked for
    Random pauses{0};
    uint64_t reads = 0, writes = 0;
    std::map<uint32_t, uint32_t> shown;  // what the bus says in place of a register

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
    void step(uint64_t cycles) {
        while (cycles--) cycle();
    }
    bool until_interrupt(uint64_t most) {
        while (most-- && !interrupt()) cycle();
        return interrupt();
    }

  private:
    void pause() {
        for (uint64_t i = gap ? pauses.next() % (gap + 1) : 0; i > 0; i--) cycle();
    }
};

extern "C" {

// Of the call before, "" for none; then forgotten.
const char* machine_failure() {
    static std::string told;
    told.swap(failure);
    failure.clear();
    return told.c_str();
}
void machine_close(Host* host) {
    if (bus == host) bus = nullptr;
    delete host;
}
uint64_t machine_read(Host* host, uint32_t offset) { return guarded([&] { return host->read_register(offset); }); }
uint64_t machine_write(Host* host, uint32_t offset, uint32_t data, uint32_t strobe) {
    return guarded([&] { return host->write_register(offset, data, strobe); });
}
uint64_t machine_reset(Host* host, uint32_t cycles) { return guarded([&] { return host->reset(cycles), 0; }); }
uint64_t machine_step(Host* host, uint64_t cycles) { return guarded([&] { return host->step(cycles), 0; }); }
// Whether the interrupt is raised after `most` cycles at the latest.
uint64_t machine_until_interrupt(Host* host, uint64_t most) {
    return guarded([&] { return host->until_interrupt(most); });
}
uint64_t machine_now(Host* host) { return host->now; }
// The first complaint, "" when there is none; all are forgotten with that.
void machine_complaint(Host* host, char* into, size_t room) {
    std::snprintf(into, room, "%s", host->wrong.empty() ? "" : host->wrong.front().c_str());
    host->wrong.clear();
}
void machine_cover(Host* host, const char* path) {
#if VM_COVERAGE
    host->context.coveragep()->write(path);
#endif
}

#if DMA

static uintptr_t bus_base = 0;

static uint32_t offset_of(uintptr_t address) {
    if (address < bus_base || address >= bus_base + 0x100 || address % 4)
        bus->complain("a bus fault: nothing is at " + std::to_string(address));
    return uint32_t(address - bus_base);
}
// As a CPU reaches it, which has no other way to hear that it was refused: what is, is a fault.
uint32_t bus_read(uintptr_t address) { return bus ? machine_read(bus, offset_of(address)) : 0; }
void bus_write(uintptr_t address, uint32_t value) {
    if (!bus) return;
    const uint32_t offset = offset_of(address);
    if (machine_write(bus, offset, value, 15) != OKAY)
        bus->complain("a bus fault: the write of " + std::to_string(value) + " to " + std::to_string(offset));
}
Host* machine_open(uintptr_t base, uint32_t data_bytes, uint32_t burst, uint32_t outstanding) {
    return guarded([&]() -> Host* {
        bus = new Host(data_bytes, burst, outstanding);
        bus_base = base;
        bus->reset(4);
        return bus;
    });
}
void machine_hold(Host* host, const uint8_t* bytes, size_t size) { host->memory.assign(bytes, bytes + size); }
void machine_pace(Host* host, uint64_t latency, uint64_t seed, uint32_t gap) {
    host->latency = latency;
    host->rest(seed);
    host->pauses = Random(seed);
    host->gap = gap;
}
// A register that reads as this from now on, as that of another device would.
void machine_show(Host* host, uint32_t offset, uint32_t value) { host->shown[offset] = value; }
void machine_bad_beat(Host* host, uint64_t beat, uint32_t response) {
    host->bad_beat = beat;
    host->bad_response = response;
}
uint64_t machine_reads(Host* host) { return host->reads; }
uint64_t machine_writes(Host* host) { return host->writes; }
uint64_t machine_beats(Host* host) { return host->beats; }
uint64_t machine_bursts(Host* host) { return host->bursts; }
uint64_t machine_waiting(Host* host) { return host->waiting(); }

#else

// fixed: so many registers that always read the same, address and value of each.
Host* machine_open(uint32_t lanes, uint32_t mutant, uint32_t odd, const uint32_t* fixed, size_t count) {
    return guarded([&] {
        std::map<uint32_t, uint32_t> known;
        for (size_t i = 0; i < count; i++) known[fixed[2 * i]] = fixed[2 * i + 1];
        return new Host(lanes, mutant, odd, known);
    });
}
uint64_t machine_restart(Host* host, uint32_t cycles, uint64_t seed) {
    return guarded([&] { return host->restart(cycles, seed), 0; });
}
int machine_play(Host* host, const Inference* one, Record* record) {
    const Named named(one->name);
    return guarded([&] { return *record = host->play(*one), 0; });
}

#endif
}
