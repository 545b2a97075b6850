// Plays the fuzzer's cases on the accelerator, each from a reset on.
//
//     accelerator JOB PARENT [COVERAGE]
//
// JOB is a job file (cases.h), PARENT the process that started this one: with it this one ends. A
// program that was built with coverage writes what was covered to the file COVERAGE. Each
// case gives one line of JSON on the standard output: what each of its runs showed at the ports.
// Whether that is right is judged elsewhere; this side judges what holds whatever is played: an
// offered word is neither withdrawn nor changed, the register file answers as it must, nothing starts
// unasked.

#include <array>
#include <memory>

#include "../../sim/harness/mutant.h"
#include "../../sim/harness/parent.h"
#include "Vtop.h"
#include "clients.h"
#include "names.h"  // made by sim/harness/names.py
#include "register_client.h"
#include "seen.h"
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

double sc_time_stamp() { return 0; }

namespace {

using namespace registers;
constexpr uint64_t MAX_CYCLES = 200'000;    // of a run
constexpr int BEGIN_CYCLES = 20;            // from a write of `start` to a fallen interrupt
constexpr uint64_t TRANSFER_CYCLES = 2000;  // of what is queued, however slowly answers are taken
constexpr int QUIET_CYCLES = 8;             // nothing may move for so long after an end
constexpr uint64_t POLL_CYCLES = 16;        // between reads of `status`
constexpr uint64_t NOISY_READ = 127;        // of so many cycles and one a register is read, whatever runs

template <typename PortType> void put(PortType& port, const uint8_t* bytes, size_t size) {
    std::memcpy(&port, bytes, size);
}
// The rows' `last`, where the design has such a port.
template <typename Top> auto rows_last(Top& t, bool last, int) -> decltype(t.s_axis_rows_tlast, void()) {
    t.s_axis_rows_tlast = last;
}
template <typename Top> void rows_last(Top&, bool, long) {}

class Machine {
  public:
    explicit Machine(const CaseFile& jobs)
        : jobs_(jobs), top_(std::make_unique<Vtop>(&context_)), model_(jobs.lanes), tokens_(4),
          rows_(jobs.lanes),
          registers_(*top_, jobs.fixed, coins_, [this](const std::string& text) { complain(text); }) {
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
    Stalls request_stalls_{false, 0}, logits_stalls_{false, 0};
    Random coins_{0};
    RegisterClient registers_;
    Watch request_watch_, logits_watch_;
    bool waits_ = false;      // for the end of an inference
    bool under_way_ = false;  // one was, in the cycle before
    bool moved_ = false, idle_ = true;
    std::array<std::vector<uint64_t>, Event::AFTERS> taken_;  // when this run's words were
    bool begun_ = false;  // HURRY's `start` was taken
    bool fell_ = false;   // the interrupt was low since the latest `start`
    Seen* seen_ = nullptr;
    std::vector<std::string> wrong_;

    void complain(const std::string& text) {
        if (wrong_.size() < 4) wrong_.push_back(text + " in cycle " + std::to_string(now_));
    }
    void reset(uint32_t cycles);
    void cycle();
    void try_interrupt();
    void read_all(Seen& seen);
    bool interrupt() const { return top_->__SYM__interrupt; }
    uint32_t read(uint32_t address) {
        registers_.queue_read(address);
        finish_transfers();
        return registers_.data();
    }
    void write(uint32_t address, uint32_t data) {
        registers_.queue_write(address, data);
        finish_transfers();
    }
    void finish_transfers() {
        const uint64_t origin = now_;
        while (!registers_.idle() && now_ - origin < TRANSFER_CYCLES) cycle();
        if (registers_.idle()) return;
        complain("the register file does not answer");
        registers_.drop();
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
    idle_registers(t);
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
    registers_.reset();
    waits_ = under_way_ = false;
    request_watch_.reset();
    logits_watch_.reset();
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
    registers_.drive();
    t.clk = 0;
    t.eval();

    registers_.see(under_way_);
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
    if (interrupt() && !registers_.enabled()) complain("there is an interrupt, although it is disabled");
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
    fell_ |= !interrupt();
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
    registers_.forget_status();
    waits_ = true;
    while (poll ? !(registers_.status() & DONE) : !interrupt()) {
        if (poll && registers_.idle() && now_ % POLL_CYCLES == 0) registers_.queue_read(STATUS);
        for (; next < events.size() && due(events[next], origin); next++) {
            const Event& event = events[next];
            if (event.action == Event::RESET) {
                seen_->end = "reset";
                reset(event.data);
                return true;
            }
            registers_.queue({event.action == Event::WRITE, event.address, event.strobe, event.data});
        }
        if (hurry && next && registers_.idle()) registers_.queue_write(CONTROL, START);
        if (registers_.idle() && (coins_.next() & NOISY_READ) == 0)
            registers_.queue({false, uint32_t(coins_.next() & (REGISTER_BYTES - 1)), 0, 0, true});
        cycle();
        if (moved_) progress = now_;
        if (now_ - progress > jobs_.patience || now_ - origin > MAX_CYCLES) return false;
    }
    waits_ = false;
    return true;
}

// Between inferences: the level is what the two registers say, and an acknowledgement lasts.
void Machine::try_interrupt() {
    if (read(INTERRUPT_ENABLE) != registers_.enabled()) complain("interrupt_enable is not what was written");
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
    registers_.pace(stalls());
    for (uint32_t i = 0; i < job.idle; i++) cycle();

    idle_ = false;
    fell_ = begun_;
    if (!begun_) write(CONTROL, START);
    begun_ = false;
    const uint64_t origin = now_;
    bool ended = true;
    const uint32_t starts = registers_.starts();
    // It may have ended again before the answer to the write was taken.
    for (int i = 0; i < BEGIN_CYCLES && !fell_; i++) cycle();
    if (!fell_) {
        seen.end = "not started";
    } else {
        seen.end = "done";
        ended = wait_for_end(origin, job.events, job.flags);
        if (!ended) {
            seen.end = job.flags & Run::RESCUE ? "rescued" : "hang";
            finish_transfers();
            registers_.queue_write(CONTROL, ABORT);
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
    if (job.flags & Run::KNOCK) registers_.queue_write(CONTROL, START | ABORT);
    finish_transfers();
    for (int i = 0; i < QUIET_CYCLES; i++) cycle();
    // An event may have written `start` in the very last cycle, so that it acts behind the end.
    begun_ = (hurry || registers_.starts() != starts) && !interrupt();
    idle_ = !begun_;
    if (!begun_) {
        if (!poll && !interrupt()) complain("an inference has begun unasked");
        seen.status = read(STATUS);
        seen.sequence = read(FAILED_SEQUENCE);
        registers_.failed(seen.sequence);
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
    print_case(one.number, all, wrong_);
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
