// A board as a shared library: the verilated accelerator, the far ends of its streams, and a bus.
//
// Time passes only where somebody asks for it: with each access of the bus, and with board_run. A bus
// has no way to tell the CPU that a write was refused but a fault; one is complained of, and so is
// everything that AXI forbids. Complaints are kept for board_complaint.

#include <map>

#include "../fuzz/clients.h"
#include "../../sim/harness/registers.h"
#include "Vtop.h"
#include "names.h"  // made by sim/harness/names.py
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

constexpr uintptr_t SPAN = 0x80;     // bytes of the register map

template <typename PortType> void put(PortType& port, const uint8_t* bytes, size_t size) {
    std::memcpy(&port, bytes, size);
}

Packets packets(const uint8_t* bytes, const uint8_t* last, size_t words, size_t word_bytes) {
    Packets made;
    made.bytes.assign(bytes, bytes + words * word_bytes);
    made.last.assign(last, last + words);
    return made;
}

}  // namespace

class Board {
  public:
    Board(uint32_t lanes, uintptr_t base) : lanes(lanes), base(base) { reset(4); }
    ~Board() { top_.final(); }

    const uint32_t lanes;
    const uintptr_t base;
    PacketSource model{lanes}, tokens{4}, pushed{lanes};
    RowMemory rows{lanes};
    Table table;
    Stalls request_stalls{false, 0}, logits_stalls{false, 0};
    Random coins{0};
    uint32_t gap = 0;  // an access begins up to so many cycles after it was asked for
    bool logits_ready = true;
    bool one_packet = false;  // and not any more after its last logit
    bool pushes = false;  // rows come unasked
    std::vector<int32_t> logits;
    size_t lasts = 0;
    uint64_t reads = 0, writes = 0;
    std::map<uintptr_t, uint32_t> shown;  // what the bus says in place of a register
    std::string complaint;

    void complain(const std::string& text) {
        if (complaint.empty()) complaint = text + " in cycle " + std::to_string(now_);
    }
    bool interrupt() const { return top_.__SYM__interrupt; }
    uint64_t now() const { return now_; }

    void reset(uint32_t cycles) {
        Vtop& t = top_;
        t.rst = 1;
        t.s_axis_model_tvalid = t.s_axis_tokens_tvalid = t.s_axis_rows_tvalid = 0;
        t.m_axis_request_tready = t.m_axis_logits_tready = 0;
        idle_registers(t);
        for (uint32_t i = 0; i < cycles; i++, now_++) {
            t.clk = 0;
            t.eval();
            edge();
        }
        t.rst = 0;
        for (PacketSource* source : {&model, &tokens, &pushed}) source->clear();
        rows.reset();
        request_watch_.reset();
        logits_watch_.reset();
    }
    void cycle() {
        settle();
        const Vtop& t = top_;
        if (model_valid_ && t.s_axis_model_tready) model.take();
        if (tokens_valid_ && t.s_axis_tokens_tready) tokens.take();
        if (rows_valid_ && t.s_axis_rows_tready) pushed.left() ? pushed.take() : rows.take();
        watch(request_watch_, "m_axis_request", t.m_axis_request_tvalid, t.m_axis_request_tready,
              t.m_axis_request_tdata);
        watch(logits_watch_, "m_axis_logits", t.m_axis_logits_tvalid, t.m_axis_logits_tready,
              uint64_t(t.m_axis_logits_tlast) << 32 | t.m_axis_logits_tdata);
        if (t.m_axis_request_tvalid && t.m_axis_request_tready && !pushes)
            rows.ask(t.m_axis_request_tdata, now_);
        if (t.m_axis_logits_tvalid && t.m_axis_logits_tready) {
            logits.push_back(int32_t(t.m_axis_logits_tdata));
            lasts += t.m_axis_logits_tlast;
            if (one_packet && t.m_axis_logits_tlast) logits_ready = false;
        }
        edge();
        now_++;
    }
    void push(Packets words) {
        pushed.load(words);
        pushes = true;
    }
    uint32_t read(uintptr_t address) {
        begin(address);
        reads++;
        if (const auto found = shown.find(address - base); found != shown.end()) return found->second;
        const Answer answer = read_register(*this, top_, uint32_t(address - base));
        if (!answer.came) complain("a read is not answered");
        if (answer.response != OKAY)
            complain("a bus fault: the read of " + std::to_string(address - base));
        return answer.data;
    }
    void write(uintptr_t address, uint32_t data) {
        begin(address);
        writes++;
        const Answer answer = write_register(*this, top_, uint32_t(address - base), data, 15);
        if (!answer.came) complain("a write is not answered");
        if (answer.response != OKAY)
            complain("a bus fault: the write of " + std::to_string(data) + " to "
                     + std::to_string(address - base));
    }
    // The first half of a cycle: every end says what it does in it, once; outputs follow.
    void settle() {
        Vtop& t = top_;
        if (settled_ != now_) {
            settled_ = now_;
            model_valid_ = model.offers(now_);
            tokens_valid_ = tokens.offers(now_);
            rows_valid_ = pushed.left() ? pushed.offers(now_) : rows.offers(now_);
            request_ready_ = !request_stalls.rest();
            logits_ready_ = logits_ready && !logits_stalls.rest();
        }
        t.s_axis_model_tvalid = model_valid_;
        if (model_valid_) {
            put(t.s_axis_model_tdata, model.word(), lanes);
            t.s_axis_model_tlast = model.last();
        }
        t.s_axis_tokens_tvalid = tokens_valid_;
        if (tokens_valid_) {
            put(t.s_axis_tokens_tdata, tokens.word(), 4);
            t.s_axis_tokens_tlast = tokens.last();
        }
        t.s_axis_rows_tvalid = rows_valid_;
        if (rows_valid_) {
            put(t.s_axis_rows_tdata, pushed.left() ? pushed.word() : rows.word(), lanes);
            t.s_axis_rows_tlast = pushed.left() ? pushed.last() : rows.last();
        }
        t.m_axis_request_tready = request_ready_;
        t.m_axis_logits_tready = logits_ready_;
        t.clk = 0;
        t.eval();
    }

  private:
    VerilatedContext context_;
    Vtop top_{&context_};
    uint64_t now_ = 0;
    bool model_valid_ = false, tokens_valid_ = false, rows_valid_ = false;
    bool request_ready_ = false, logits_ready_ = false;
    uint64_t settled_ = ~uint64_t(0);  // the cycle for which the ends have decided
    Watch request_watch_, logits_watch_;

    // The second half of a cycle.
    void edge() {
        top_.clk = 1;
        top_.eval();
    }
    void watch(Watch& watch, const char* name, bool valid, bool ready, uint64_t word) {
        if (const char* wrong = watch.cycle(valid, ready, word); *wrong)
            complain(std::string(name) + " is " + wrong);
    }
    void begin(uintptr_t address) {
        if (address < base || address >= base + SPAN || address % 4)
            complain("a bus fault: nothing is at " + std::to_string(address));
        for (uint64_t i = gap ? coins.next() % (gap + 1) : 0; i > 0; i--) cycle();
    }
};

namespace {

Board* bus = nullptr;  // what bus_read and bus_write reach

}  // namespace

extern "C" {

Board* board_open(uint32_t lanes, uintptr_t base) { return bus = new Board(lanes, base); }
void board_close(Board* board) {
    if (bus == board) bus = nullptr;
    delete board;
}
void board_reset(Board* board, uint32_t cycles) { board->reset(cycles); }
void board_pace(Board* board, uint32_t seed, uint32_t gap) {
    Random seeds(seed);
    auto stalls = [&] { return Stalls(seed != 0, seeds.next()); };
    for (PacketSource* source : {&board->model, &board->tokens, &board->pushed})
        source->pace(0, stalls());
    board->request_stalls = stalls();
    board->logits_stalls = stalls();
    board->coins = Random(seed);
    board->gap = gap;
}
void board_model(Board* board, const uint8_t* bytes, const uint8_t* last, size_t words) {
    board->model.load(packets(bytes, last, words, board->lanes));
}
void board_tokens(Board* board, const uint8_t* bytes, const uint8_t* last, size_t words) {
    board->tokens.load(packets(bytes, last, words, 4));
}
// Rows of a table, as they are asked for: `words` each, `latency` cycles later.
void board_rows(Board* board, const uint8_t* bytes, size_t rows, uint32_t row_bytes, uint32_t words,
                uint32_t latency) {
    board->pushes = false;
    board->table.row_bytes = row_bytes;
    board->table.rows = uint32_t(rows);
    board->table.bytes.assign(bytes, bytes + rows * row_bytes);
    Run run;
    run.row_words = words;
    run.row_latency = latency;
    board->rows.behave(board->table, run, Stalls(false, 0));
}
void board_silence_rows(Board* board, uint64_t cycles) { board->rows.silent_until(board->now() + cycles); }
// Words of rows that come by themselves: requests are taken and not answered.
void board_push_rows(Board* board, const uint8_t* bytes, const uint8_t* last, size_t words) {
    board->push(packets(bytes, last, words, board->lanes));
}
// A register that reads as this from now on, as that of another device would.
void board_show(Board* board, uint32_t offset, uint32_t value) { board->shown[offset] = value; }
void board_take_logits(Board* board, int take) {
    board->logits_ready = take;
    board->one_packet = false;
}
void board_take_packet(Board* board) { board->logits_ready = board->one_packet = true; }
void board_run(Board* board, uint64_t cycles) {
    while (cycles--) board->cycle();
}
// Cycles until the interrupt is raised, `most` when it is not.
uint64_t board_until_interrupt(Board* board, uint64_t most) {
    uint64_t cycles = 0;
    for (; cycles < most && !board->interrupt(); cycles++) board->cycle();
    return cycles;
}
int board_interrupt(Board* board) { return board->interrupt(); }
uint64_t board_now(Board* board) { return board->now(); }
uint64_t board_reads(Board* board) { return board->reads; }
uint64_t board_writes(Board* board) { return board->writes; }
size_t board_model_left(Board* board) { return board->model.left(); }
size_t board_tokens_left(Board* board) { return board->tokens.left(); }
size_t board_rows_left(Board* board) { return board->rows.pending() + board->pushed.left(); }
// How many logits came since this was asked last; the first `room` of them, and how many were `last`.
size_t board_logits(Board* board, int32_t* into, size_t room, size_t* lasts) {
    const size_t count = board->logits.size();
    for (size_t i = 0; i < count && i < room; i++) into[i] = board->logits[i];
    *lasts = board->lasts;
    board->logits.clear();
    board->lasts = 0;
    return count;
}
// The first complaint, "" when there is none; it is forgotten with that.
size_t board_complaint(Board* board, char* into, size_t room) {
    const size_t length = board->complaint.copy(into, room - 1);
    into[length] = 0;
    board->complaint.clear();
    return length;
}
uint32_t bus_read(uintptr_t address) { return bus ? bus->read(address) : 0; }
void bus_write(uintptr_t address, uint32_t data) {
    if (bus) bus->write(address, data);
}
}
