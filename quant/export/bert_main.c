/* Logits of texts from standard input, a text a line of `ID`, `ID:TYPE` or `ID:TYPE:ATTEND` for
   each token (TYPE 0 and ATTEND 1 where they are not given); a line of logits for each. Ends with
   1 at the first line that cannot be used, which it names on standard error. */
#include <inttypes.h>
#include <stdio.h>

#include "bert_infer.h"

static bert_workspace workspace;

#if BERT_GIVEN
/* The numbers of images from standard input, BERT_TOKENS * BERT_HIDDEN each, separated by white
   space; a line of logits for each. Ends with 1 at the first that cannot be used. */
int main(void)
{
    static int16_t rows[BERT_TOKENS * BERT_HIDDEN];
    static int32_t logits[BERT_LOGITS];
    unsigned long image = 1;
    long value, count;
    int found, label;
    for (;; image++) {
        for (count = 0; count < (long)BERT_TOKENS * BERT_HIDDEN; count++) {
            found = scanf("%ld", &value);
            if (found == EOF && count == 0) {
                return 0;
            }
            if (found != 1 || value < INT16_MIN || value > INT16_MAX) {
                fprintf(stderr, "error: image %lu: number %ld is %s\n", image, count + 1,
                        found == EOF ? "missing" : "none from -32768 to 32767");
                return 1;
            }
            rows[count] = (int16_t)value;
        }
        bert_infer(&workspace, rows, logits);
        for (label = 0; label < BERT_LOGITS; label++) {
            printf("%s%" PRId32, label ? " " : "", logits[label]);
        }
        printf("\n");
    }
}
#else
static uint32_t ids[BERT_TOKENS];
static uint8_t types[BERT_TOKENS], attend[BERT_TOKENS];

static int is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* The number that begins with the digit c, or UINT32_MAX if it is larger. c moves behind it. */
static uint32_t number(int *c)
{
    uint32_t value = 0;
    for (; is_digit(*c); *c = getchar()) {
        uint32_t digit = (uint32_t)(*c - '0');
        value = value > (UINT32_MAX - digit) / 10 ? UINT32_MAX : value * 10 + digit;
    }
    return value;
}

/* Reads the line that begins with c into the arrays. The number of its tokens, at most one more
   than there may be; -1 for a line that is not made of tokens. */
static int read_line(int c)
{
    int tokens = 0, i;
    while (c != '\n' && c != EOF) {
        uint32_t field[3] = {0, 0, 1};
        if (c == ' ' || c == '\t' || c == '\r') {
            c = getchar();
            continue;
        }
        for (i = 0; i < 3; i++) {
            if (!is_digit(c)) {
                return -1;
            }
            field[i] = number(&c);
            if (c != ':') {
                break;
            }
            c = getchar();
        }
        if (i == 3 || !(c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == EOF)) {
            return -1;
        }
        if (tokens < BERT_TOKENS) {
            ids[tokens] = field[0];
            types[tokens] = (uint8_t)(field[1] > 255 ? 255 : field[1]);
            attend[tokens] = (uint8_t)(field[2] > 255 ? 255 : field[2]);
        }
        tokens += tokens <= BERT_TOKENS;
    }
    return tokens;
}

int main(void)
{
    static int32_t logits[BERT_LOGITS];
    unsigned long line = 1;
    int32_t label;
    int c;
    for (; (c = getchar()) != EOF; line++) {
        int tokens = read_line(c);
        int code = BERT_OK;
        const char *message = "not a list of ID, ID:TYPE or ID:TYPE:ATTEND";
        if (tokens >= 0) {
            code = bert_infer(&workspace, ids, types, attend, tokens, logits);
            message = bert_message(code);
        }
        if (tokens < 0 || code != BERT_OK) {
            fprintf(stderr, "error: line %lu: %s\n", line, message);
            return 1;
        }
        for (label = 0; label < BERT_LABELS * (BERT_EVERY ? (int32_t)tokens : 1); label++) {
            printf("%s%" PRId32, label ? " " : "", logits[label]);
        }
        printf("\n");
    }
    return 0;
}
#endif
