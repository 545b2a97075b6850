/* Logits of texts from standard input, a text a line of `ID` or `ID:TYPE` for each token; or of
   images, BERT_TOKENS * BERT_HIDDEN numbers each, separated by white space. A line of logits for
   each. Ends with 1 at the first that cannot be used, which it names on standard error. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bert_infer.h"

static bert_workspace workspace;
static int32_t logits[BERT_LOGITS];

static void print(int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        printf("%s%" PRId32, i ? " " : "", logits[i]);
    }
    printf("\n");
}

#if BERT_GIVEN
int main(void)
{
    static int16_t rows[BERT_TOKENS * BERT_HIDDEN];
    unsigned long image = 1;
    long value, count;
    int found;
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
        print(BERT_LOGITS);
    }
}
#else
static uint32_t ids[BERT_TOKENS];
static uint8_t types[BERT_TOKENS];

/* Reads a line into the arrays. The number of its tokens, at most one more than there may be; -1
   for a line that is not made of tokens. */
static int read_line(char *at)
{
    int tokens;
    for (tokens = 0; *(at += strspn(at, " \t\r\n")); tokens++) {
        unsigned long id, type = 0;
        if (tokens == BERT_TOKENS) {
            return tokens + 1;
        }
        if (!isdigit((unsigned char)*at)) {
            return -1;
        }
        id = strtoul(at, &at, 10);
        if (*at == ':' && isdigit((unsigned char)at[1])) {
            type = strtoul(at + 1, &at, 10);
        }
        if (!strchr(" \t\r\n", *at)) {
            return -1;
        }
        ids[tokens] = (uint32_t)(id < UINT32_MAX ? id : UINT32_MAX);
        types[tokens] = (uint8_t)(type < 255 ? type : 255);
    }
    return tokens;
}

int main(void)
{
    static char text[BERT_TOKENS * 32 + 1];
    unsigned long line = 1;
    for (; fgets(text, sizeof text, stdin); line++) {
        int whole = strchr(text, '\n') || feof(stdin);
        int tokens = whole ? read_line(text) : BERT_TOKENS + 1;
        int code = tokens < 0 ? -1 : bert_infer(&workspace, ids, types, tokens, logits);
        if (code != BERT_OK) {
            fprintf(stderr, "error: line %lu: %s\n", line,
                    tokens < 0 ? "not a list of ID or ID:TYPE" : bert_message(code));
            return 1;
        }
        print(BERT_LABELS * (BERT_EVERY ? tokens : 1));
    }
    return 0;
}
#endif
