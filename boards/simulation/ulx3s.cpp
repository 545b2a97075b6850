// The verilated top of the ULX3S with models of the chips around it, at a pseudo-terminal.
//
//     ulx3s LINK BIT BASE FLASH MEMORY FIRST RULE...
//
// LINK is the terminal's name, BIT the clock cycles of a bit, BASE where the contents of the file
// FLASH lie in the flash; the file MEMORY is put into the SDRAM, and the bytes FIRST (hexadecimal)
// are sent, before there is a terminal; a file or bytes may be "". RULE are the numbers of
// sdram::Rules.
//
// Each line on the standard input is a command; each is answered with a line.

#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>

#include "Vtop.h"
#include "flash.h"
#include "sdram.h"
#include "serial.h"
#include "terminal.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

constexpr unsigned LOCKED = 1, READY = 2, IN_USE = 4, RUNNING = 8;
constexpr uint64_t STEP = 1000;   // cycles between two looks at the terminal
constexpr uint64_t QUIET = 5000;  // cycles without a sign of work after which time rests
constexpr int REST_MS = 20;
constexpr size_t AHEAD = 32;  // bytes taken from the terminal before they are sent
constexpr flash::Rules FLASH = {2, 1875, 4};  // 30 us at 62.5 MHz

const std::string COMMANDS =
    "not understood; there are: reset, unplug MILLISECONDS, noise CYCLES SEED, chatter BYTES SEED, "
    "flip ADDRESS BIT, state, quit";

bool flash_level = false;

std::vector<uint8_t> contents(const char* path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// What lies on the board: the power goes off and on with a new one.
struct Board {
    VerilatedContext context;
    Vtop top{&context};
    sdram::Chip memory;
    flash::Chip flash;
    Serial serial;
    uint64_t cycles = 0, worked = 0;
    bool clock_fault = false;

    Board(const sdram::Rules& rules, unsigned bit, uint32_t base, const std::vector<uint8_t>& data)
        : memory(rules), flash(FLASH, base), serial(bit) {
        flash.data = data;
        top.ftdi_txd = 1;
        flash_level = false;
        top.eval();
    }
    ~Board() { top.final(); }

    // A cycle: the SDRAM sees its edge after the registers of the pads have changed.
    void cycle() {
        const bool line = serial.level();
        top.ftdi_txd = line;
        const bool low = !top.sdram_clk;
        top.clk_25mhz = 1;
        top.eval();
        if (!low || !top.sdram_clk) clock_fault = true;
        const unsigned command = !top.sdram_rasn << 2 | !top.sdram_casn << 1 | !top.sdram_wen;
        const bool drives = top.sdram_d__en != 0;
        if (top.sdram_d__en != 0 && top.sdram_d__en != 0xFFFF) clock_fault = true;
        const sdram::Answer answer =
            memory.clock({top.sdram_cke != 0, top.sdram_csn ? 0 : command, top.sdram_ba, top.sdram_a,
                          top.sdram_dqm, uint16_t(top.sdram_d__out), drives});
        top.sdram_d = answer.drives ? answer.data : 0xBAD0;
        top.flash_miso = flash.cycle(!top.flash_csn, flash_level, top.flash_mosi);
        top.clk_25mhz = 0;
        top.eval();
        serial.sample(top.ftdi_rxd);
        const bool column = command == 0b010 || command == 0b011;
        if (column || !top.flash_csn || !serial.quiet() || !(top.led & READY) || top.led & RUNNING)
            worked = cycles;
        cycles++;
    }

    bool resting() const { return cycles - worked > QUIET; }
};

std::string state(const Board& board) {
    std::ostringstream out;
    out << "{\"cycles\": " << board.cycles << ", \"led\": " << unsigned(board.top.led)
        << ", \"refreshes\": " << board.memory.refreshes << ", \"violations\": [";
    const char* between = "";
    for (const sdram::Violation& violation : board.memory.violations) {
        out << between << "\"" << violation.rule << "\"";
        between = ", ";
    }
    for (const std::string& complaint : board.flash.complaints) {
        out << between << "\"flash: " << complaint << "\"";
        between = ", ";
    }
    if (board.clock_fault) out << between << "\"clock or data pins of the SDRAM\"";
    out << "]}";
    return out.str();
}

}  // namespace

extern "C" void flash_clock(svBit level) { flash_level = level; }

int main(int count, char** arguments) {
    if (count != 7 + 15) {
        std::cerr << count - 1 << " arguments, not 21\n";
        return 2;
    }
    sdram::Rules rules{};
    uint64_t* fields[] = {&rules.period, &rules.rc,       &rules.ras,     &rules.ras_max,
                          &rules.rcd,    &rules.rp,       &rules.rrd,     &rules.rfc,
                          &rules.wr,     &rules.mrd,      &rules.power_up, &rules.refresh,
                          &rules.row_bits, &rules.column_bits, &rules.cas};
    for (int i = 0; i < 15; i++) *fields[i] = strtoull(arguments[7 + i], nullptr, 10);
    const unsigned bit = unsigned(strtoul(arguments[2], nullptr, 10));
    const uint32_t base = uint32_t(strtoul(arguments[3], nullptr, 10));
    const std::vector<uint8_t> in_flash = contents(arguments[4]);
    auto board = std::make_unique<Board>(rules, bit, base, in_flash);

    const std::vector<uint8_t> image = contents(arguments[5]);
    // At power-up the first bytes of the flash are copied over the memory's.
    while (!board->resting() && in_flash.empty()) board->cycle();
    for (size_t i = 0; i + 1 < image.size(); i += 2)  // images have an even number of bytes
        board->memory.poke(uint32_t(i / 2), uint16_t(image[i] | image[i + 1] << 8));
    for (const char* first = arguments[6]; strlen(first) >= 2; first += 2)
        board->serial.to_board.push_back(uint8_t(std::stoul(std::string(first, 2), nullptr, 16)));
    if (!image.empty())
        while (!(board->top.led & IN_USE) && board->serial.from_board.empty()) board->cycle();
    while (!board->resting() && in_flash.empty()) board->cycle();
    board->serial.from_board.clear();

    Terminal terminal(arguments[1]);
    if (!terminal.plug()) {
        std::cerr << "no pseudo-terminal at " << arguments[1] << ": " << strerror(errno) << "\n";
        return 3;
    }
    std::cout << terminal.device() << std::endl;

    std::string line;
    uint64_t away = 0;  // milliseconds until the terminal is back
    for (;;) {
        terminal.exchange(board->serial.to_board, board->serial.from_board, AHEAD);
        const bool rests = board->resting() && board->serial.to_board.empty();
        pollfd polled[] = {{0, POLLIN, 0}, {terminal.descriptor(), POLLIN, 0}};
        const int ready = poll(polled, 2, rests || away ? REST_MS : 0);
        if (away && (away = away > REST_MS ? away - REST_MS : 0) == 0 && !terminal.plug()) return 3;
        if (ready > 0 && polled[0].revents != 0) {
            if (!std::getline(std::cin, line)) break;
            std::istringstream words(line);
            std::string command;
            uint64_t a = 0, b = 0;
            words >> command >> a >> b;
            if (command == "quit") break;
            bool known = true;
            if (command == "reset") {
                board = std::make_unique<Board>(rules, bit, base, in_flash);
            } else if (command == "unplug") {
                terminal.unplug();
                away = a > REST_MS ? a : REST_MS;
            } else if (command == "noise") {
                board->serial.noise(a, b);
            } else if (command == "chatter") {
                std::mt19937_64 random(b);
                while (a--) board->serial.from_board.push_back(uint8_t(random()));
            } else if (command == "flip" && a >> rules.row_bits >> rules.column_bits < 8) {
                board->memory.flip(uint32_t(a / 2), uint16_t(1u << (8 * (a & 1) + b % 8)));
            } else {
                known = command == "state";
            }
            std::cout << (known ? state(*board) : COMMANDS) << std::endl;
        }
        if (!rests || (polled[1].revents & POLLIN))
            for (uint64_t i = 0; i < STEP; i++) board->cycle();
    }
    return 0;
}
