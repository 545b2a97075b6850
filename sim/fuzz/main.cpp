// Plays the fuzzer's cases on the accelerator, each from a reset on.
//
//     accelerator JOB PARENT [COVERAGE]
//
// JOB is a job file (cases.h), PARENT the process that started this one: with it this one ends. A
// program that was built with coverage writes what was covered to the file COVERAGE. Each
// case gives one line of JSON on the standard output: what each of its runs showed at the ports.
// Whether that is right is judged elsewhere; this side judges what holds whatever is played: an
// offered word is neither withdrawn nor changed, no answer of the register file depends on its inputs
// of the same cycle, nothing starts unasked.

#include <array>
#include <memory>

#include "../harness/mutant.h"
#include "../harness/parent.h"
#include "Vtop.h"
#include "clients.h"
#include "names.h"  // made by sim/harness/names.py
#include "registers.h"
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

double sc_time_stamp() { return 0; }

namespace {

using namespace registers;
constexpr uint32_t START = 1, ABORT = 2;     // bits of CONTROL
constexpr uint32_t DONE = 2;                 // of STATUS
constexpr uint32_t OKAY = 0, SLVERR = 2;
constexpr uint64_t MAX_CYCLES = 200'000;  // of a run
constexpr int BEGIN_CYCLES = 20;             // from a write of `start` to a fallen interrupt
constexpr uint64_t ANSWER_CYCLES = 2000;     // of the register file, however slowly it is asked
constexpr int QUIET_CYCLES = 8;              // nothing may move for so long after an end
constexpr uint64_t POLL_CYCLES = 16;         // between reads of `status`
constexpr uint32_t REGISTER_BYTES = 0x80;    // of the address space, unused ones included
constexpr uint64_t NOISY_READ = 127;         // of so many cycles and one a register is read, whatever runs

template <typename PortType> void put(PortType& port, const uint8_t* bytes, size_t size) {
    std::memcpy(&port, bytes, size);
}
// The rows' `last`, where the design has such a port.
template <typename Top> auto rows_last(Top& t, bool last, int) -> decltype(t.s_axis_rows_tlast, void()) {
    t.s_axis_rows_tlast = last;
}
template <typename Top> void rows_last(Top&, bool, long) {}

struct Transfer {  // of the register file
    bool write;
    uint32_t address, strobe, data;
    bool noise = false;  // a read that nobody asked for
};

struct Seen {  // what a run showed
    const char* end = "";
    bool model_rest = false, tokens_rest = false;  // words that the run before has left
    int64_t status = -1;                           // -1: the next run has begun before it was read
    uint32_t sequence = 0;  // that has failed
    uint64_t cycles = 0;
    size_t model_from = 0, model_taken = 0, tokens_from = 0, tokens_taken = 0, rows_pending = 0;
    std::vector<int32_t> logits;
    std::vector<size_t> lasts;
    std::array<uint32_t, CAUSES - 1> stalls{};  // as the registers count them
};

class Machine {
  public:
    explicit Machine(const CaseFile& jobs)
        : jobs_(jobs), top_(std::make_unique<Vtop>(&context_)), model_(jobs.lanes), tokens_(4),
          rows_(jobs.lanes), account_(jobs.fixed) {
        choose_mutant(*top_, 0);
    }
    ~Machine() { top_->final(); }
    void play(const Case& one);
#if VM_COVERAGE
    void write_coverage(const char* file) { context_.coveragep()->write(file); }
#endif

  private:
    const CaseFile& jobs_;
    VerilatedContext context_;
    std::unique_ptr<Vtop> top_;
    uint64_t now_ = 0;
    PacketSource model_, tokens_;
    RowMemory rows_;
    Stalls request_stalls_{false, 0}, logits_stalls_{false, 0}, answer_stalls_{false, 0};
    RegisterAccount account_;
    std::optional<uint32_t> expected_, expected_status_;  // of the read in hand
    Random coins_{0};
    Watch request_watch_, logits_watch_, write_watch_, read_watch_;
    std::deque<Transfer> transfers_;
    bool in_transfer_ = false, address_taken_ = false, data_taken_ = false;
    uint32_t address_wait_ = 0, data_wait_ = 0;
    uint64_t transfers_done_ = 0;
    uint32_t read_data_ = 0, status_ = 0;  // what the latest read said, and the latest of `status`
    bool answered_ = false;                // the write in hand
    bool enabled_ = true;                  // the interrupt
    bool waits_ = false;                   // for the end of an inference
    bool under_way_ = false;               // one was, in the cycle before
    bool moved_ = false, idle_ = true;
    std::array<std::vector<uint64_t>, Event::AFTERS> taken_;  // when this run's words were
    bool begun_ = false;  // HURRY's `start` was taken
    Seen* seen_ = nullptr;
    std::vector<std::string> wrong_;

    void complain(const std::string& text) {
        if (wrong_.size() < 4) wrong_.push_back(text + " in cycle " + std::to_string(now_));
    }
    void reset(uint32_t cycles);
    void cycle();
    void drive_registers();
    void see_registers();
    void answered(const Transfer& write, uint32_t response);
    void try_interrupt();
    void read_all(Seen& seen);
    void check_paths();
    bool interrupt() const { return top_->__SYM__interrupt; }
    void queue_write(uint32_t address, uint32_t data, uint32_t strobe = 15) {
        transfers_.push_back({true, address, strobe, data});
    }
    void queue_read(uint32_t address) { transfers_.push_back({false, address, 0, 0}); }
    uint32_t read(uint32_t address) {
        queue_read(address);
        finish_transfers();
        return read_data_;
    }
    void write(uint32_t address, uint32_t data) {
        queue_write(address, data);
        finish_transfers();
    }
    void finish_transfers() {
        const uint64_t origin = now_;
        while (!transfers_.empty() && now_ - origin < ANSWER_CYCLES) cycle();
        if (transfers_.empty()) return;
        complain("the register file does not answer");
        transfers_.clear();
        in_transfer_ = false;
    }
    bool due(const Event& event, uint64_t origin) const;
    bool wait_for_end(uint64_t origin, const std::vector<Event>& events, uint32_t flags);
    bool run(const Run& job, Seen& seen);
};

void Machine::reset(uint32_t cycles) {
    Vtop& t = *top_;
    t.rst = 1;
    t.s_axis_model_tvalid = t.s_axis_tokens_tvalid = t.s_axis_rows_tvalid = 0;
    t.m_axis_request_tready = t.m_axis_logits_tready = 0;
    t.s_axi_awvalid = t.s_axi_wvalid = t.s_axi_arvalid = t.s_axi_bready = t.s_axi_rready = 0;
    for (uint32_t i = 0; i < cycles; i++) {
        t.clk = 0;
        t.eval();
        t.clk = 1;
        t.eval();
        now_++;
    }
    t.rst = 0;
    model_.clear();
    tokens_.clear();
    rows_.reset();
    transfers_.clear();
    in_transfer_ = answered_ = waits_ = under_way_ = false;
    enabled_ = true;
    account_.reset();
    for (Watch* watch : {&request_watch_, &logits_watch_, &write_watch_, &read_watch_}) watch->reset();
}

void Machine::drive_registers() {
    Vtop& t = *top_;
    if (!in_transfer_ && !transfers_.empty()) {
        in_transfer_ = true;
        address_taken_ = data_taken_ = false;
        const uint32_t skew = uint32_t(coins_.next() & 15);
        address_wait_ = skew == 1 ? 2 : 0;
        data_wait_ = skew == 2 ? 2 : 0;
    }
    t.s_axi_awvalid = t.s_axi_wvalid = t.s_axi_arvalid = 0;
    const uint64_t noise = coins_.next();  // on all that is not offered
    t.s_axi_awaddr = coins_.next() & 1 ? CONTROL : noise & (REGISTER_BYTES - 1);
    t.s_axi_araddr = noise >> 8 & (REGISTER_BYTES - 1);
    t.s_axi_wstrb = noise >> 16 & 15;
    t.s_axi_wdata = noise >> 20;
    if (in_transfer_) {
        const Transfer& one = transfers_.front();
        if (one.write) {
            t.s_axi_awvalid = !address_taken_ && !address_wait_;
            t.s_axi_wvalid = !data_taken_ && !data_wait_;
            if (t.s_axi_awvalid) t.s_axi_awaddr = one.address;
            if (t.s_axi_wvalid) {
                t.s_axi_wdata = one.data;
                t.s_axi_wstrb = one.strobe;
            }
        } else {
            t.s_axi_arvalid = !address_taken_;
            if (t.s_axi_arvalid) t.s_axi_araddr = one.address;
        }
        if (address_wait_) address_wait_--;
        if (data_wait_) data_wait_--;
    }
    const bool rests = answer_stalls_.rest();
    t.s_axi_bready = t.s_axi_rready = !rests;
}

void Machine::see_registers() {
    Vtop& t = *top_;
    if (const char* wrong = write_watch_.cycle(t.s_axi_bvalid, t.s_axi_bready, t.s_axi_bresp); *wrong)
        complain(std::string("s_axi_b is ") + wrong);
    const uint64_t answer = uint64_t(t.s_axi_rresp) << 32 | t.s_axi_rdata;
    if (const char* wrong = read_watch_.cycle(t.s_axi_rvalid, t.s_axi_rready, answer); *wrong)
        complain(std::string("s_axi_r is ") + wrong);
    if (!in_transfer_) {
        if (t.s_axi_bvalid || t.s_axi_rvalid) complain("the register file answers unasked");
        return;
    }
    if (transfers_.front().write) {
        if (t.s_axi_awvalid && t.s_axi_awready) address_taken_ = true;
        if (t.s_axi_wvalid && t.s_axi_wready) data_taken_ = true;
        if (t.s_axi_bvalid && !answered_) answered(transfers_.front(), t.s_axi_bresp);
        answered_ = t.s_axi_bvalid;
        if (!(t.s_axi_bvalid && t.s_axi_bready)) return;
        answered_ = false;
    } else {
        const uint32_t address = transfers_.front().address;
        if (t.s_axi_arvalid && t.s_axi_arready) {
            address_taken_ = true;
            expected_ = account_.expected(address);
            expected_status_ = (address & ~3u) == STATUS ? account_.status() : std::nullopt;
        }
        if (!(t.s_axi_rvalid && t.s_axi_rready)) return;
        const uint32_t data = t.s_axi_rdata;
        auto named = [&] { return "the register at " + std::to_string(address) + " reads "; };
        if (t.s_axi_rresp != OKAY) complain(named() + "with an error");
        if (expected_ && data != *expected_)
            complain(named() + std::to_string(data) + ", not " + std::to_string(*expected_));
        if (expected_status_ && (data & 3) != *expected_status_)
            complain(named() + std::to_string(data) + ", its low bits are " + std::to_string(*expected_status_));
        if (!transfers_.front().noise) {
            read_data_ = data;
            if ((address & ~3u) == STATUS) status_ = read_data_;
        }
    }
    in_transfer_ = false;
    transfers_.pop_front();
    transfers_done_++;
}

// The cycle before, a write has acted.
void Machine::answered(const Transfer& write, uint32_t response) {
    const uint32_t address = write.address & ~3u;
    const bool control = address == CONTROL;
    const bool start = control && (write.data & 3) == START;
    const bool acts = (control || address == INTERRUPT_ENABLE || address == INTERRUPT_PENDING) &&
                      (write.strobe & 1) && !(start && under_way_);
    if (response != (acts ? OKAY : SLVERR))
        complain("a write of the register at " + std::to_string(address) + " is answered with " +
                 std::to_string(response));
    if (address == INTERRUPT_ENABLE && acts) enabled_ = write.data & 1;
    account_.enable(enabled_);
    if (start && acts) account_.begin();
}

void Machine::check_paths() {
    Vtop& t = *top_;
    auto answers = [&] {
        return std::array<uint32_t, 8>{t.s_axi_awready, t.s_axi_wready, t.s_axi_bvalid, t.s_axi_bresp,
                                       t.s_axi_arready, t.s_axi_rvalid, t.s_axi_rresp, t.s_axi_rdata};
    };
    static const char* const names[] = {"awready", "wready", "bvalid", "bresp",
                                        "arready", "rvalid", "rresp", "rdata"};
    const auto before = answers();
    const std::array<uint32_t, 8> inputs = {t.s_axi_awvalid, t.s_axi_wvalid, t.s_axi_bready,
                                            t.s_axi_arvalid, t.s_axi_rready, t.s_axi_awaddr,
                                            t.s_axi_araddr,  t.s_axi_wdata};
    auto drive = [&](const std::array<uint32_t, 8>& in) {
        t.s_axi_awvalid = in[0];
        t.s_axi_wvalid = in[1];
        t.s_axi_bready = in[2];
        t.s_axi_arvalid = in[3];
        t.s_axi_rready = in[4];
        t.s_axi_awaddr = in[5];
        t.s_axi_araddr = in[6];
        t.s_axi_wdata = in[7];
        t.eval();
    };
    const uint64_t coins = coins_.next();
    std::array<uint32_t, 8> other{};
    for (int i = 0; i < 5; i++) other[i] = coins >> i & 1;
    other[5] = coins >> 8 & 0x7C;
    other[6] = coins >> 16 & 0x7C;
    other[7] = coins >> 32;
    drive(other);
    const auto after = answers();
    drive(inputs);
    for (size_t i = 0; i < before.size(); i++)
        if (before[i] != after[i])
            complain(std::string("s_axi_") + names[i] + " depends on an input of the same cycle");
}

void Machine::cycle() {
    Vtop& t = *top_;
    const size_t n = jobs_.lanes;
    const bool model_valid = model_.offers(now_), tokens_valid = tokens_.offers(now_);
    const bool rows_valid = rows_.offers(now_);
    t.s_axis_model_tvalid = model_valid;
    t.s_axis_model_tlast = coins_.next() & 1;  // noise while nothing is offered
    if (model_valid) {
        put(t.s_axis_model_tdata, model_.word(), n);
        t.s_axis_model_tlast = model_.last();
    }
    t.s_axis_tokens_tvalid = tokens_valid;
    t.s_axis_tokens_tlast = coins_.next() & 1;
    if (tokens_valid) {
        put(t.s_axis_tokens_tdata, tokens_.word(), 4);
        t.s_axis_tokens_tlast = tokens_.last();
    }
    t.s_axis_rows_tvalid = rows_valid;
    rows_last(t, coins_.next() & 1, 0);
    if (rows_valid) {
        put(t.s_axis_rows_tdata, rows_.word(), n);
        rows_last(t, rows_.last(), 0);
    }
    t.m_axis_request_tready = !request_stalls_.rest();
    t.m_axis_logits_tready = !logits_stalls_.rest();
    drive_registers();
    t.clk = 0;
    t.eval();
    if ((coins_.next() & 63) == 0) check_paths();

    account_.see(interrupt());
    see_registers();
    account_.count(t.trace_active, t.trace_stall);
    moved_ = t.trace_active;
    auto take = [&](Event::After stream) {
        taken_[stream].push_back(now_);
        moved_ = true;
    };
    if (model_valid && t.s_axis_model_tready) model_.take(), take(Event::MODEL);
    if (tokens_valid && t.s_axis_tokens_tready) tokens_.take(), take(Event::TOKENS);
    if (rows_valid && t.s_axis_rows_tready) rows_.take(), take(Event::ROWS);
    if (const char* wrong = request_watch_.cycle(t.m_axis_request_tvalid, t.m_axis_request_tready,
                                                 t.m_axis_request_tdata);
        *wrong)
        complain(std::string("m_axis_request is ") + wrong);
    const uint64_t logit = uint64_t(t.m_axis_logits_tlast) << 32 | t.m_axis_logits_tdata;
    if (const char* wrong =
            logits_watch_.cycle(t.m_axis_logits_tvalid, t.m_axis_logits_tready, logit);
        *wrong)
        complain(std::string("m_axis_logits is ") + wrong);
    if (interrupt() && !enabled_) complain("there is an interrupt, although it is disabled");
    if (idle_ && t.m_axis_request_tvalid) complain("m_axis_request asks between inferences");
    if (idle_ && t.m_axis_logits_tvalid) complain("m_axis_logits speaks between inferences");
    if (idle_ && ((model_valid && t.s_axis_model_tready) || (tokens_valid && t.s_axis_tokens_tready)))
        complain("a word is taken between inferences");
    if (t.m_axis_request_tvalid && t.m_axis_request_tready) {
        rows_.ask(t.m_axis_request_tdata, now_);
        take(Event::REQUEST);
    }
    if (t.m_axis_logits_tvalid && t.m_axis_logits_tready) {
        if (seen_) {
            if (t.m_axis_logits_tlast) seen_->lasts.push_back(seen_->logits.size());
            seen_->logits.push_back(int32_t(t.m_axis_logits_tdata));
        }
        take(Event::LOGITS);
    }
    under_way_ = waits_ && !interrupt();
    t.clk = 1;
    t.eval();
    now_++;
}

bool Machine::due(const Event& event, uint64_t origin) const {
    if (event.after == Event::START) return now_ - origin >= event.cycle;
    const auto& taken = taken_[event.after];
    return event.count < taken.size() && now_ >= taken[event.count] + event.cycle;
}

// Cycles until the inference has ended; false when nothing has moved for too long.
bool Machine::wait_for_end(uint64_t origin, const std::vector<Event>& events, uint32_t flags) {
    const bool hurry = flags & Run::HURRY, poll = flags & Run::POLL;
    uint64_t progress = now_;
    size_t next = 0;
    status_ = 0;
    waits_ = true;
    while (poll ? !(status_ & DONE) : !interrupt()) {
        if (poll && transfers_.empty() && now_ % POLL_CYCLES == 0) queue_read(STATUS);
        for (; next < events.size() && due(events[next], origin); next++) {
            const Event& event = events[next];
            if (event.action == Event::RESET) {
                seen_->end = "reset";
                reset(event.data);
                return true;
            }
            transfers_.push_back(
                {event.action == Event::WRITE, event.address, event.strobe, event.data});
        }
        if (hurry && next && transfers_.empty()) queue_write(CONTROL, START);
        if (transfers_.empty() && (coins_.next() & NOISY_READ) == 0)
            transfers_.push_back({false, uint32_t(coins_.next() & (REGISTER_BYTES - 1)), 0, 0, true});
        cycle();
        if (moved_) progress = now_;
        if (now_ - progress > jobs_.patience || now_ - origin > MAX_CYCLES) return false;
    }
    waits_ = false;
    return true;
}

// Between inferences: the level is what the two registers say, and an acknowledgement lasts.
void Machine::try_interrupt() {
    if (read(INTERRUPT_ENABLE) != enabled_) complain("interrupt_enable is not what was written");
    for (uint32_t enable : {1u, 0u}) {
        write(INTERRUPT_ENABLE, enable);
        if (interrupt() != (enable && read(INTERRUPT_PENDING)))
            complain("the interrupt is not pending and enabled");
    }
    write(INTERRUPT_PENDING, 1);
    write(INTERRUPT_ENABLE, 1);
    for (int i = 0; i < QUIET_CYCLES; i++) cycle();
    if (interrupt() || read(INTERRUPT_PENDING)) complain("the interrupt stays after its acknowledgement");
}

// Every register, mapped or not; and no cycle of a good inference is left unexplained.
void Machine::read_all(Seen& seen) {
    std::map<uint32_t, uint32_t> shown;
    for (uint32_t address = 0; address < REGISTER_BYTES; address += 4) shown[address] = read(address);
    uint64_t explained = shown[ACTIVE];
    for (int cause = 0; cause < CAUSES - 1; cause++) explained += seen.stalls[cause] = shown[STALLS[cause]];
    if ((shown[STATUS] >> 8 & 15) == 0 && shown[STATUS] & DONE && explained != shown[CYCLES])
        complain("active and stalled cycles are " + std::to_string(explained) + " of " +
                 std::to_string(shown[CYCLES]));
}

// One run; false when another one must take what is left.
bool Machine::run(const Run& job, Seen& seen) {
    seen_ = &seen;
    for (auto& stream : taken_) stream.clear();
    Random seeds(job.seed);
    auto stalls = [&] { return Stalls(job.seed != 0, seeds.next()); };
    seen.model_rest = job.flags & Run::REST && model_.left();
    seen.tokens_rest = job.flags & Run::REST && tokens_.left();
    if (!seen.model_rest) model_.load(job.model);
    if (!seen.tokens_rest) tokens_.load(job.tokens);
    seen.model_from = model_.taken();
    seen.tokens_from = tokens_.taken();
    model_.pace(job.model_delay ? now_ + job.idle + job.model_delay : 0, stalls());
    tokens_.pace(job.tokens_delay ? now_ + job.idle + job.tokens_delay : 0, stalls());
    rows_.behave(jobs_.tables.at(job.table), job, stalls());
    rows_.silent_until(now_ + job.row_silence);
    request_stalls_ = stalls();
    logits_stalls_ = stalls();
    answer_stalls_ = stalls();
    for (uint32_t i = 0; i < job.idle; i++) cycle();

    idle_ = false;
    if (!begun_) {
        queue_write(CONTROL, START);
        finish_transfers();
    }
    begun_ = false;
    const uint64_t origin = now_;
    bool ended = true;
    for (int i = 0; i < BEGIN_CYCLES && interrupt(); i++) cycle();
    if (interrupt()) {
        seen.end = "not started";
    } else {
        seen.end = "done";
        ended = wait_for_end(origin, job.events, job.flags);
        if (!ended) {
            seen.end = job.flags & Run::RESCUE ? "rescued" : "hang";
            finish_transfers();
            queue_write(CONTROL, ABORT);
            rows_.silent_until(0);
            ended = wait_for_end(now_, {}, job.flags & Run::POLL);
            if (!ended) seen.end = "abort does not end";
        }
    }
    seen.cycles = now_ - origin;
    seen.model_taken = model_.taken();
    seen.tokens_taken = tokens_.taken();
    seen.rows_pending = rows_.pending();
    if (!ended || std::strcmp(seen.end, "not started") == 0) {
        reset(4);
        return true;
    }
    if (std::strcmp(seen.end, "reset") == 0) {
        idle_ = true;
        return true;
    }
    const bool hurry = job.flags & Run::HURRY, poll = job.flags & Run::POLL;
    idle_ = !hurry;
    if (!(job.flags & (Run::KEEP | Run::REST))) {
        model_.clear();
        tokens_.clear();
    }
    if (job.flags & Run::KNOCK) queue_write(CONTROL, START | ABORT);
    finish_transfers();
    for (int i = 0; i < QUIET_CYCLES; i++) cycle();
    begun_ = hurry && !interrupt();
    idle_ = !begun_;
    if (!begun_) {
        if (!poll && !interrupt()) complain("an inference has begun unasked");
        seen.status = read(STATUS);
        seen.sequence = read(FAILED_SEQUENCE);
        account_.failed(seen.sequence);
        if (poll) try_interrupt();
        read_all(seen);
    }
    return !(job.flags & (Run::KEEP | Run::REST)) || (!model_.left() && !tokens_.left());
}

void Machine::play(const Case& one) {
    wrong_.clear();
    now_ = 0;
    coins_ = Random(one.number);
    idle_ = true;
    begun_ = false;
    reset(2);
    std::deque<Seen> all;
    for (const auto& job : one.runs) {
        if (job.flags & Run::REST && !model_.left() && !tokens_.left()) {
            all.emplace_back();
            all.back().end = "skipped";
            continue;
        }
        for (int again = 0; again < 4; again++) {
            all.emplace_back();
            if (run(job, all.back()) || !(job.flags & Run::REST)) break;
        }
    }
    seen_ = nullptr;
    std::printf("{\"case\": %u, \"runs\": [", one.number);
    const char* comma = "";
    for (const auto& seen : all) {
        std::printf("%s{\"end\": \"%s\", \"model_rest\": %d, \"tokens_rest\": %d, \"status\": %lld, \"cycles\": %llu",
                    comma, seen.end, seen.model_rest, seen.tokens_rest,
                    static_cast<long long>(seen.status), static_cast<unsigned long long>(seen.cycles));
        std::printf(", \"sequence\": %u", seen.sequence);
        std::printf(", \"model_from\": %zu, \"model_taken\": %zu, \"tokens_from\": %zu"
                    ", \"tokens_taken\": %zu, \"rows_pending\": %zu, \"logits\": [",
                    seen.model_from, seen.model_taken, seen.tokens_from, seen.tokens_taken,
                    seen.rows_pending);
        for (size_t i = 0; i < seen.logits.size() && i < 1000; i++)
            std::printf("%s%d", i ? ", " : "", seen.logits[i]);
        std::printf("], \"lasts\": [");
        for (size_t i = 0; i < seen.lasts.size(); i++)
            std::printf("%s%zu", i ? ", " : "", seen.lasts[i]);
        std::printf("], \"stalls\": [");
        for (int i = 0; i < CAUSES - 1; i++) std::printf("%s%u", i ? ", " : "", seen.stalls[i]);
        std::printf("]}");
        comma = ", ";
    }
    std::printf("], \"wrong\": [");
    for (size_t i = 0; i < wrong_.size(); i++)
        std::printf("%s\"%s\"", i ? ", " : "", wrong_[i].c_str());
    std::printf("]}\n");
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3 || argc > 3 + VM_COVERAGE) {
        std::fprintf(stderr, "usage: %s JOB PARENT%s\n", argv[0], VM_COVERAGE ? " [COVERAGE]" : "");
        return 2;
    }
    end_with(std::atoi(argv[2]));
    try {
        const CaseFile jobs(argv[1]);
        Machine machine(jobs);
        for (const auto& one : jobs.cases) machine.play(one);
#if VM_COVERAGE
        if (argc > 3) machine.write_coverage(argv[3]);
#endif
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
