/* The C driver on the CPU of a simulated SoC: prints PASS, or FAIL and the first step that went
   wrong.

   The memory begins with words: offset of the image, its bytes, number of sequences; then each
   sequence as the number of its token words, these, the number of its logits, and golden's. */

#include <stdint.h>

#include <generated/csr.h>
#include <generated/mem.h>
#include <generated/soc.h>
#include <irq.h>

#include "bert2rtl.h"

enum { LOGITS = 512, POLLS = 10000000, SLEEPS = 100000, NAP = 100, NOTHING_THERE = 0x20000000 };

struct job {
    uint32_t image, image_bytes, sequences;
    uint32_t words[];
};

static const struct job *const job = (const struct job *)MAIN_RAM_BASE;
static b2rtl_device device;
static volatile uint32_t interrupts;

static void text(const char *s)
{
    for (; *s; s++) {
        while (uart_txfull_read())
            ;
        uart_rxtx_write((unsigned char)*s);
    }
}

__attribute__((noreturn)) static void end(const char *verdict, const char *step, const char *detail)
{
    text(verdict);
    text(step);
    text(detail);
    text("\n");
    for (;;)
        ;
}

static void expect(const char *step, int code, int expected)
{
    if (code != expected)
        end("FAIL ", step, b2rtl_text(code));
}

__attribute__((interrupt)) void on_trap(void)
{
    if (csrr(mcause) != 0x8000000Bu)
        end("FAIL ", "trap", "");
    if (b2rtl_acknowledge(&device) == 1)
        interrupts++;
}

/* VexRiscv has no WFI here: until the next interrupt, or for a while. */
static void sleep(void *context)
{
    const uint32_t before = interrupts;

    (void)context;
    for (uint32_t i = 0; i < NAP && interrupts == before; i++)
        ;
}

/* Run the sequence at `at`, which must end with `code`; the next one. */
static const uint32_t *infer(const char *step, const uint32_t *at, int by_interrupt, int code)
{
    static int32_t logits[LOGITS];
    const uint32_t tokens = at[0], *words = at + 1, count = words[tokens];
    const uint32_t *golden = words + tokens + 1;
    uint32_t waiting = 0;
    int ended;

    expect(step, b2rtl_send_tokens(&device, words, tokens), B2RTL_OK);
    expect(step, b2rtl_start(&device), B2RTL_OK);
    ended = by_interrupt ? b2rtl_wait_interrupt(&device, sleep, 0, SLEEPS)
                         : b2rtl_wait(&device, POLLS);
    expect(step, ended, code);
    expect(step, b2rtl_read_logits(&device, logits, LOGITS, &waiting), B2RTL_OK);
    if (waiting != (code ? 0 : count))
        end("FAIL ", step, ": number of logits");
    for (uint32_t i = 0; i < waiting; i++)
        if ((uint32_t)logits[i] != golden[i])
            end("FAIL ", step, ": logits");
    return golden + count;
}

static void all(const char *step, int by_interrupt)
{
    const uint32_t *at = job->words;

    for (uint32_t i = 0; i < job->sequences; i++)
        at = infer(step, at, by_interrupt, B2RTL_OK);
}

int main(void)
{
    uint8_t *const bytes = (uint8_t *)MAIN_RAM_BASE + job->image;
    const uint32_t address = (uint32_t)(uintptr_t)bytes, size = job->image_bytes;
    uint8_t *middle;
    b2rtl_image image, wrong;

    expect("open", b2rtl_open(&device, ACCELERATOR_BASE), B2RTL_OK);
    expect("image", b2rtl_read_image(&device, bytes, size, address, &image), B2RTL_OK);
    expect("use", b2rtl_use_image(&device, &image), B2RTL_OK);
    all("polling", 0);

    b2rtl_acknowledge(&device); /* the latest of them is still pending */
    irq_setmask(1u << ACCELERATOR_INTERRUPT);
    irq_setie(1);
    all("interrupt", 1);
    irq_setie(0);
    if (interrupts != job->sequences || irq_pending() >> ACCELERATOR_INTERRUPT & 1)
        end("FAIL ", "interrupt", ": their number");

    middle = bytes + (image.stream - address) + image.stream_bytes / 2;
    *middle ^= 1;
    infer("flipped bit", job->words, 0, B2RTL_CRC);
    *middle ^= 1;
    infer("flipped back", job->words, 0, B2RTL_OK);

    bytes[size - 1] ^= 1;
    expect("flipped row", b2rtl_read_image(&device, bytes, size, address, &wrong),
           B2RTL_IMAGE_DAMAGED);
    bytes[size - 1] ^= 1;

    wrong = image;
    wrong.stream = NOTHING_THERE;
    expect("use", b2rtl_use_image(&device, &wrong), B2RTL_OK);
    infer("nothing there", job->words, 0, B2RTL_BUS);
    expect("use", b2rtl_use_image(&device, &image), B2RTL_OK);
    infer("there again", job->words, 0, B2RTL_OK);
    end("PASS", "", "");
}
