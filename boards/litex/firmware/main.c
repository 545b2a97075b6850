/* What the CPU of the simulated SoC does: the driver's steps on an image that lies in its memory.

   The memory begins with words: where the image is from there on, its bytes, how many sequences
   follow; then each as the number of its token words and these. Each inference is a line:

       STEP: code CODE, CYCLES cycles, logits LOGIT LOGIT ...

   An image that is read anew is one, too: the driver's code, 0 cycles, no logits.

   Other lines are for people. Whatever goes wrong outside an inference is a line "failed: ...". */

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

static void put(char c)
{
    while (uart_txfull_read())
        ;
    uart_rxtx_write((unsigned char)c);
}

static void text(const char *s)
{
    while (*s)
        put(*s++);
}

static void number(int32_t value)
{
    char digits[10];
    uint32_t rest = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
    int count = 0;

    if (value < 0)
        put('-');
    do {
        digits[count++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    while (count)
        put(digits[--count]);
}

static void end(void)
{
    while (!uart_txempty_read())
        ;
    finish_finish_write(1);
    for (;;)
        ;
}

/* An interrupt, of the accelerator alone; everything else would be a fault of this program. */
__attribute__((interrupt)) void on_trap(void)
{
    if (csrr(mcause) != 0x8000000Bu) {
        text("failed: trap ");
        number((int32_t)csrr(mcause));
        text(" at ");
        number((int32_t)csrr(mepc));
        put('\n');
        end();
    }
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

static void require(int code, const char *what)
{
    if (code == B2RTL_OK)
        return;
    text("failed: ");
    text(what);
    text(": ");
    text(b2rtl_text(code));
    put('\n');
    end();
}

static void tell(const char *step, int code, uint32_t cycles, const int32_t *logits, uint32_t count)
{
    text(step);
    text(": code ");
    number(code);
    text(", ");
    number((int32_t)cycles);
    text(" cycles, logits");
    for (uint32_t i = 0; i < count; i++) {
        put(' ');
        number(logits[i]);
    }
    put('\n');
    if (code != B2RTL_OK) {
        text(b2rtl_text(code));
        put('\n');
    }
}

static void infer(const char *step, const uint32_t *words, uint32_t count, int by_interrupt)
{
    static int32_t logits[LOGITS];
    uint32_t waiting = 0;
    b2rtl_counters counters = {0};
    int code;

    require(b2rtl_send_tokens(&device, words, count), "tokens");
    require(b2rtl_start(&device), "start");
    code = by_interrupt ? b2rtl_wait_interrupt(&device, sleep, 0, SLEEPS)
                        : b2rtl_wait(&device, POLLS);
    require(b2rtl_read_logits(&device, logits, LOGITS, &waiting), "logits");
    require(b2rtl_read_counters(&device, &counters), "counters");
    tell(step, code, counters.cycles, logits, waiting < LOGITS ? waiting : LOGITS);
}

static void all(const char *step, int by_interrupt)
{
    const uint32_t *at = job->words;

    for (uint32_t i = 0; i < job->sequences; i++) {
        infer(step, at + 1, *at, by_interrupt);
        at += 1 + *at;
    }
}

static void first(const char *step)
{
    infer(step, job->words + 1, job->words[0], 0);
}

int main(void)
{
    uint8_t *const bytes = (uint8_t *)MAIN_RAM_BASE + job->image;
    const uint32_t address = (uint32_t)(uintptr_t)bytes;
    b2rtl_image image, wrong;

    require(b2rtl_open(&device, ACCELERATOR_BASE), "open");
    text("accelerator of ");
    number((int32_t)device.lanes);
    text(" lanes\n");
    require(b2rtl_read_image(&device, bytes, job->image_bytes, address, &image), "image");
    require(b2rtl_use_image(&device, &image), "use");
    text("stream of ");
    number((int32_t)image.stream_bytes);
    text(" bytes\n");

    all("polling", 0);

    b2rtl_acknowledge(&device); /* the latest of them is still pending */
    irq_setmask(1u << ACCELERATOR_INTERRUPT);
    irq_setie(1);
    all("interrupt", 1);
    irq_setie(0);
    number((int32_t)interrupts);
    text(" interrupts, pending ");
    number((int32_t)(irq_pending() >> ACCELERATOR_INTERRUPT & 1));
    put('\n');

    bytes[image.stream - address + image.stream_bytes / 2] ^= 1;
    first("flipped bit");
    bytes[image.stream - address + image.stream_bytes / 2] ^= 1;
    first("flipped back");

    bytes[job->image_bytes - 1] ^= 1;
    tell("flipped row", b2rtl_read_image(&device, bytes, job->image_bytes, address, &wrong), 0, 0, 0);
    bytes[job->image_bytes - 1] ^= 1;
    tell("image again", b2rtl_read_image(&device, bytes, job->image_bytes, address, &wrong), 0, 0, 0);

    wrong = image;
    wrong.stream = NOTHING_THERE;
    require(b2rtl_use_image(&device, &wrong), "use");
    first("nothing there");
    require(b2rtl_use_image(&device, &image), "use");
    first("there again");

    text("end\n");
    end();
    return 0;
}
