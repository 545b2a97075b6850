// Runs inferences on the accelerator, one after another, as fast as Verilator can.
//
//     accelerator JOB PARENT FOLDER
//
// JOB is a job file (job.h), PARENT the process that started this one: with it this one ends. Each
// inference ends with one line of JSON on the standard output; its writes, where asked for, are in
// FOLDER/writes-INDEX. A line with "failure" ends the run: a hang, or something that no accelerator
// may do.

#include <chrono>
#include <cstring>
#include <memory>

#include "Vtop.h"
#include "job.h"
#include "mutant.h"
#include "parent.h"
#include "streams.h"
#include "trace.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

using namespace registers;
constexpr uint32_t START = 1, ABORT = 2;  // bits of CONTROL
// The write of `control` is taken; then the pulse; then the first cycle of `busy`.
constexpr int64_t WRITE_TO_BUSY = 2;

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <typename PortType> void put(PortType& port, const uint8_t* bytes, size_t size) {
    std::memcpy(&port, bytes, size);
}

// Sequences of a batch: each ends with the bit of its last token, the last one in any case.
uint32_t sequences(const std::vector<uint32_t>& tokens) {
    uint32_t count = 1;
    for (size_t i = 0; i + 1 < tokens.size(); i++) count += tokens[i] >> 26 & 1;
    return count;
}

class Machine {
  public:
    explicit Machine(const JobFile& jobs)
        : jobs_(jobs), top_(std::make_unique<Vtop>(&context_)), rows_(jobs.lanes, jobs.row_latency) {
        choose_mutant(*top_, 0);
        top_->rst = 1;
        for (int i = 0; i < 4; i++) tick();
        top_->rst = 0;
        tick();
        const uint32_t lanes = read(LANES);
        if (lanes != jobs.lanes)
            throw Failure("the design has " + std::to_string(lanes) + " lanes, the job file is for "
                          + std::to_string(jobs.lanes));
    }
    ~Machine() { top_->final(); }

    void run(const Inference& job, const std::string& folder);

  private:
    const JobFile& jobs_;
    VerilatedContext context_;
    std::unique_ptr<Vtop> top_;
    uint64_t simulated_ = 0;
    RowSource rows_;
    Offer request_{"request"}, result_{"logits"};
    bool row_offered_ = false, row_taken_ = false, requested_ = false, sent_ = false;

    // The first half of a cycle: the memory offers its word, all outputs settle.
    void settle() {
        Vtop& t = *top_;
        row_offered_ = rows_.offers(simulated_);
        t.s_axis_rows_tvalid = row_offered_;
        if (row_offered_) {
            put(t.s_axis_rows_tdata, rows_.word(), jobs_.lanes);
            t.s_axis_rows_tlast = rows_.last();
        }
        t.clk = 0;
        t.eval();
        row_taken_ = row_offered_ && t.s_axis_rows_tready;
        requested_ = request_.cycle(t.m_axis_request_tvalid, t.m_axis_request_tready,
                                    t.m_axis_request_tdata, false);
        sent_ = result_.cycle(t.m_axis_logits_tvalid, t.m_axis_logits_tready,
                              t.m_axis_logits_tdata, t.m_axis_logits_tlast);
    }
    // The second half.
    void edge() {
        if (row_taken_) rows_.take();
        if (requested_) rows_.ask(top_->m_axis_request_tdata, simulated_);
        top_->clk = 1;
        top_->eval();
        simulated_++;
    }
    void tick() {
        settle();
        edge();
    }
    uint32_t read(uint32_t address) {
        top_->s_axi_araddr = address;
        top_->s_axi_arvalid = 1;
        top_->s_axi_rready = 1;
        for (int wait = 0;; wait++) {
            settle();
            const bool taken = top_->s_axi_arvalid && top_->s_axi_arready;
            const bool answered = top_->s_axi_rvalid;
            const uint32_t value = top_->s_axi_rdata;
            edge();
            if (taken) top_->s_axi_arvalid = 0;
            if (answered) {
                top_->s_axi_rready = 0;
                return value;
            }
            if (wait == 100) throw Failure("the register file does not answer a read");
        }
    }
    void offer_write(uint32_t value) {
        top_->s_axi_awaddr = CONTROL;
        top_->s_axi_wdata = value;
        top_->s_axi_wstrb = 15;
        top_->s_axi_awvalid = top_->s_axi_wvalid = 1;
        top_->s_axi_bready = 1;
    }
    void record(Writes& writes, uint32_t cycle) const;
};

void Machine::record(Writes& writes, uint32_t cycle) const {
    auto& ports = writes.ports;
    const Vtop& t = *top_;
#define RECORD(port, address, signal) \
    ports[port].add(cycle, address, &signal, sizeof signal)
    RECORD_ALL(t, RECORD);
#undef RECORD
}

void Machine::run(const Inference& job, const std::string& folder) {
    const auto began = std::chrono::steady_clock::now();
    const uint64_t simulated_before = simulated_;
    const size_t n = jobs_.lanes;
    Random seeds(jobs_.seed + 0x9E3779B97F4A7C15u * job.index);
    auto stalls = [&] { return Stalls(jobs_.stalls, seeds.next()); };
    const auto& bytes = jobs_.streams.at(job.stream);
    WordSource model(bytes.data(), bytes.size() / n, n, jobs_.interval, jobs_.ahead,
                     stalls());
    WordSource tokens(reinterpret_cast<const uint8_t*>(job.tokens.data()), job.tokens.size(), 4, 1, 1,
                      stalls());
    rows_.serve(jobs_.tables.at(job.table), stalls());
    Stalls request_stalls = stalls(), logits_stalls = stalls();

    Writes writes;
    Operations operations;
    std::vector<int32_t> logits;
    uint32_t last_logits = 0;  // how many came with `last`
    int64_t first_token = -1, last_logit = -1;
    bool busy = false;  // `start` was written
    Vtop& t = *top_;

    offer_write(START);
    // Sources count from the write; `cycle` from the first cycle of `busy`.
    int64_t origin = 0, progress = 0;
    for (int64_t now = 0;; now++) {
        const int64_t cycle = now - origin;
        if (busy && job.abort >= 0 && cycle == job.abort) offer_write(ABORT);

        const bool model_valid = model.offers(now), tokens_valid = tokens.offers(now);
        t.s_axis_model_tvalid = model_valid;
        if (model_valid) {
            put(t.s_axis_model_tdata, model.word(), n);
            t.s_axis_model_tlast = model.last();
        }
        t.s_axis_tokens_tvalid = tokens_valid;
        if (tokens_valid) {
            put(t.s_axis_tokens_tdata, tokens.word(), 4);
            t.s_axis_tokens_tlast = tokens.last();
        }
        t.m_axis_request_tready = !request_stalls.rest();
        t.m_axis_logits_tready = !logits_stalls.rest();
        settle();

        const bool written = t.s_axi_awvalid && t.s_axi_awready && t.s_axi_wready;
        const bool active = t.trace_active;
        bool moved = active || row_taken_ || requested_;
        if (model_valid && t.s_axis_model_tready) {
            model.take(now);
            moved = true;
        }
        if (tokens_valid && t.s_axis_tokens_tready) {
            if (first_token < 0) first_token = cycle;
            tokens.take(now);
            moved = true;
        }
        if (sent_) {
            logits.push_back(int32_t(t.m_axis_logits_tdata));
            last_logits += t.m_axis_logits_tlast;
            last_logit = cycle;
            moved = true;
        }
        if (busy && cycle >= 0) {
            operations.cycle(cycle, active, t.trace_operation, t.trace_stall);
            if (job.trace) record(writes, uint32_t(cycle));
        }
        const bool ended = busy && cycle > 0 && t.__SYM__interrupt;  // so called, since "interrupt" is a word of some C++ compilers
        const uint32_t cause = t.trace_stall;
        edge();

        if (written) {
            t.s_axi_awvalid = t.s_axi_wvalid = 0;
            if (!busy) origin = now + WRITE_TO_BUSY;
            busy = true;
        }
        if (ended) break;
        if (moved) progress = now;
        if (busy && jobs_.longest && cycle > int64_t(jobs_.longest))
            throw Failure("still at it after " + std::to_string(jobs_.longest) + " cycles");
        if (now - progress > int64_t(jobs_.patience))
            throw Failure(
                "no progress for " + std::to_string(jobs_.patience) + " cycles since cycle "
                + std::to_string(progress - origin) + ": the array says "
                + (cause < CAUSES ? CAUSE_NAMES[cause] : "?") + "; command stream word "
                + std::to_string(model.taken()) + " of " + std::to_string(model.words()) + ", token "
                + std::to_string(tokens.taken()) + " of " + std::to_string(tokens.words()) + ", "
                + std::to_string(rows_.pending()) + " rows asked for and not taken, "
                + std::to_string(logits.size()) + " logits");
    }
    t.s_axis_model_tvalid = t.s_axis_tokens_tvalid = 0;
    t.m_axis_request_tready = t.m_axis_logits_tready = 0;
    const bool succeeded = (read(STATUS) >> 8 & 15) == 0;
    if (rows_.pending())
        throw Failure("ended with " + std::to_string(rows_.pending()) + " rows still to come");
    if (!succeeded && !logits.empty())
        throw Failure("failed, but gave " + std::to_string(logits.size()) + " logits");
    if (succeeded
        && (model.taken() != model.words() || tokens.taken() != tokens.words() || last_logits != sequences(job.tokens)))
        throw Failure("ended well with words left: command stream " + std::to_string(model.taken())
                      + " of " + std::to_string(model.words()) + " taken, tokens "
                      + std::to_string(tokens.taken()) + " of " + std::to_string(tokens.words()) + ", "
                      + std::to_string(last_logits) + " logits with `last`");
    if (job.trace) writes.save(folder + "/writes-" + std::to_string(job.index));

    std::printf("{\"index\": %u, \"status\": %u, \"sequence\": %u, \"cycles\": %u, \"active\": %u",
                job.index, read(STATUS), read(FAILED_SEQUENCE), read(CYCLES), read(ACTIVE));
    std::printf(", \"stalls\": [");
    for (int i = 0; i < CAUSES - 1; i++) std::printf("%s%u", i ? ", " : "", read(STALLS[i]));
    std::printf("], \"first_token\": %lld, \"last_logit\": %lld, \"logits\": [",
                static_cast<long long>(first_token), static_cast<long long>(last_logit));
    for (size_t i = 0; i < logits.size(); i++) std::printf("%s%d", i ? ", " : "", logits[i]);
    std::printf("], \"operations\": [");
    const char* comma = "";
    for (uint32_t number : operations.order()) {
        const Operation& one = operations[number];
        std::printf("%s[%u, %llu, %llu, %llu", comma, number, static_cast<unsigned long long>(one.first),
                    static_cast<unsigned long long>(one.last),
                    static_cast<unsigned long long>(one.active));
        for (int cause = 1; cause < CAUSES; cause++)
            std::printf(", %llu", static_cast<unsigned long long>(one.stalls[cause]));
        std::printf("]");
        comma = ", ";
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
    std::printf("], \"simulated\": %llu, \"seconds\": %.6f}\n",
                static_cast<unsigned long long>(simulated_ - simulated_before), seconds.count());
    std::fflush(stdout);
}

void fail(int64_t index, const std::string& text) {
    std::printf("{\"index\": %lld, \"failure\": \"%s\"}\n", static_cast<long long>(index),
                text.c_str());
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: %s JOB PARENT FOLDER\n", argv[0]);
        return 2;
    }
    end_with(std::atoi(argv[2]));
    int64_t index = -1;
    try {
        const JobFile jobs(argv[1]);
        Machine machine(jobs);
        for (const auto& job : jobs.inferences) {
            index = job.index;
            machine.run(job, argv[3]);
        }
    } catch (const std::exception& error) {
        fail(index, error.what());
        return 1;
    }
    return 0;
}
