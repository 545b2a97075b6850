// A master of the accelerator's AXI4-Lite registers: one access at a time, each to its end.
//
// `board` has settle(), the first half of a cycle in which outputs follow inputs, and cycle().

#pragma once

#include <cstdint>

constexpr int ANSWER_CYCLES = 1000;  // the register file answers long before
constexpr uint32_t OKAY = 0, SLVERR = 2;

struct Answer {
    bool came;
    uint32_t response, data;
};

template <typename Top> void idle_registers(Top& t) {
    t.s_axi_awvalid = t.s_axi_wvalid = t.s_axi_arvalid = t.s_axi_bready = t.s_axi_rready = 0;
}

template <typename Board, typename Top>
Answer read_register(Board& board, Top& t, uint32_t address) {
    t.s_axi_araddr = address;
    t.s_axi_arvalid = t.s_axi_rready = 1;
    for (int i = 0; i < ANSWER_CYCLES; i++) {
        board.settle();
        const bool taken = t.s_axi_arvalid && t.s_axi_arready;
        const Answer answer{bool(t.s_axi_rvalid), t.s_axi_rresp, t.s_axi_rdata};
        board.cycle();
        if (taken) t.s_axi_arvalid = 0;
        if (!answer.came) continue;
        t.s_axi_rready = 0;
        return answer;
    }
    return {false, SLVERR, 0};
}

template <typename Board, typename Top>
Answer write_register(Board& board, Top& t, uint32_t address, uint32_t data, uint32_t strobe) {
    t.s_axi_awaddr = address;
    t.s_axi_wdata = data;
    t.s_axi_wstrb = strobe;
    t.s_axi_awvalid = t.s_axi_wvalid = t.s_axi_bready = 1;
    for (int i = 0; i < ANSWER_CYCLES; i++) {
        board.settle();
        const bool address_taken = t.s_axi_awvalid && t.s_axi_awready;
        const bool data_taken = t.s_axi_wvalid && t.s_axi_wready;
        const Answer answer{bool(t.s_axi_bvalid), t.s_axi_bresp, 0};
        board.cycle();
        if (address_taken) t.s_axi_awvalid = 0;
        if (data_taken) t.s_axi_wvalid = 0;
        if (!answer.came) continue;
        t.s_axi_bready = 0;
        return answer;
    }
    return {false, SLVERR, 0};
}
