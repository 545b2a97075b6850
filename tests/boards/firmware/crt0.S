/* From reset to main. Nothing is in .data: what is not constant begins as zero. */

    .section .text.start
    .globl _start
_start:
    la sp, stack_end
    la t0, bss_begin
    la t1, bss_end
1:  beq t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  la t0, on_trap
    csrw mtvec, t0
    li t0, 0x800 /* external interrupts; none before mstatus.MIE is set */
    csrw mie, t0
    call main
3:  j 3b
