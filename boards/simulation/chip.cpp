// The chip of sdram.h for Python: one call an edge.

#include "sdram.h"

extern "C" {

sdram::Chip* chip_open(const uint64_t* times) {
    sdram::Rules rules{};
    uint64_t* fields[] = {&rules.period, &rules.rc,       &rules.ras,     &rules.ras_max,
                          &rules.rcd,    &rules.rp,       &rules.rrd,     &rules.rfc,
                          &rules.wr,     &rules.mrd,      &rules.power_up, &rules.refresh,
                          &rules.row_bits, &rules.column_bits, &rules.cas};
    for (uint64_t* field : fields) *field = *times++;
    return new sdram::Chip(rules);
}

void chip_close(sdram::Chip* chip) { delete chip; }

// Bits 15:0 what the chip drives, bit 16 whether it does.
uint32_t chip_clock(sdram::Chip* chip, uint32_t enable, uint32_t command, uint32_t bank,
                    uint32_t address, uint32_t mask, uint32_t o, uint32_t oe) {
    const auto answer = chip->clock({enable != 0, command, bank, address, mask, uint16_t(o), oe != 0});
    return uint32_t(answer.drives) << 16 | answer.data;
}

uint32_t chip_peek(const sdram::Chip* chip, uint32_t address) { return chip->peek(address); }
uint64_t chip_refreshes(const sdram::Chip* chip) { return chip->refreshes; }
uint64_t chip_violations(const sdram::Chip* chip) { return chip->violations.size(); }
const char* chip_rule(const sdram::Chip* chip, uint64_t i) { return chip->violations[i].rule; }
uint64_t chip_edge(const sdram::Chip* chip, uint64_t i) { return chip->violations[i].edge; }
}
