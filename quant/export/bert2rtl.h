/* Integer inference of one quantized model: token ids to logits, bit for bit those of bert2rtl's
   golden model (docs/numerics.md of bert2rtl). C99 with its standard headers; no allocation, no
   floating point, no global state. */
#ifndef BERT2RTL_H
#define BERT2RTL_H

#include <stdint.h>

#include "bert2rtl_shape.h"

/* What bert2rtl_infer returns. All but BERT2RTL_OK leave the logits as they were. */
enum {
    BERT2RTL_OK = 0,
    BERT2RTL_BAD_POINTER = 1, /* workspace, ids or logits is NULL */
    BERT2RTL_BAD_TOKENS = 2,  /* tokens is not in 1..BERT2RTL_TOKENS */
    BERT2RTL_BAD_ID = 3,      /* an id is not below BERT2RTL_VOCABULARY */
    BERT2RTL_BAD_TYPE = 4,    /* a type is not below BERT2RTL_TYPES */
    BERT2RTL_BAD_ATTEND = 5,  /* an attend is neither 0 nor 1 */
    BERT2RTL_NO_KEY = 6       /* attend is 0 for every token */
};

/* What an inference computes with. Any memory of this size serves, it need not be cleared, and two
   inferences at a time need two of them. Its members belong to the inference. */
typedef struct {
    int16_t x[BERT2RTL_TOKENS][BERT2RTL_HIDDEN];
    int8_t x8[BERT2RTL_TOKENS][BERT2RTL_HIDDEN];
    int8_t q[BERT2RTL_TOKENS][BERT2RTL_INNER];
    int8_t k[BERT2RTL_TOKENS][BERT2RTL_INNER];
    int8_t v[BERT2RTL_TOKENS][BERT2RTL_INNER];
    int16_t score[BERT2RTL_TOKENS];
    uint8_t p[BERT2RTL_TOKENS];
    int8_t ffn[BERT2RTL_FFN];
    int8_t head[2][BERT2RTL_HEAD_WIDTH];
    /* low halves of operands of 16 bits */
    int8_t x8_low[BERT2RTL_PRECISE ? BERT2RTL_TOKENS : 1][BERT2RTL_PRECISE ? BERT2RTL_HIDDEN : 1];
    int8_t ffn_low[BERT2RTL_PRECISE ? BERT2RTL_FFN : 1];
    int8_t head_low[BERT2RTL_PRECISE ? BERT2RTL_HIDDEN : 1];
} bert2rtl_workspace;

/* The BERT2RTL_LABELS logits of one text; where BERT2RTL_EVERY is 1 as many for each of its tokens,
   token by token, at most BERT2RTL_LOGITS.

   ids, types, attend: `tokens` values each. types are segment ids, NULL for all 0. attend is 1 for
   tokens that serve as keys and 0 for masked ones (holes are allowed), NULL for all 1. */
int bert2rtl_infer(bert2rtl_workspace *workspace, const uint32_t *ids, const uint8_t *types,
                   const uint8_t *attend, int tokens, int32_t *logits);

/* A sentence for what bert2rtl_infer returned. */
const char *bert2rtl_message(int code);

#endif
