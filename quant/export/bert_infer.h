/* Integer inference of one quantized model: token ids to logits, bit for bit those of bert2rtl's
   golden model (docs/numerics.md of bert2rtl). C99 with its standard headers; no allocation, no
   floating point, no global state. */
#ifndef BERT_INFER_H
#define BERT_INFER_H

#include <stdint.h>

#include "bert_shape.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What bert_infer returns. All but BERT_OK leave the logits as they were. */
enum {
    BERT_OK = 0,
    BERT_BAD_POINTER = 1, /* workspace, ids (or rows) or logits is NULL */
    BERT_BAD_TOKENS = 2,  /* tokens is not in 1..BERT_TOKENS */
    BERT_BAD_ID = 3,      /* an id is not below BERT_VOCABULARY */
    BERT_BAD_TYPE = 4     /* a type is not below BERT_TYPES */
};

/* What an inference computes with. Any memory of this size serves, it need not be cleared, and two
   inferences at a time need two of them. Its members belong to the inference. */
typedef struct {
    int16_t x[BERT_TOKENS][BERT_HIDDEN];
    int8_t x8[BERT_TOKENS][BERT_HIDDEN];
    int8_t q[BERT_TOKENS][BERT_INNER];
    int8_t k[BERT_TOKENS][BERT_KV_HEADS * BERT_HEAD_SIZE];
    int8_t v[BERT_TOKENS][BERT_KV_HEADS * BERT_HEAD_SIZE];
    int16_t score[BERT_TOKENS];
    uint8_t p[BERT_TOKENS];
    int8_t ffn[BERT_FFN];
    int8_t head[2][BERT_HEAD_WIDTH];
    /* low halves of operands of 16 bits */
    int8_t x8_low[BERT_PRECISE ? BERT_TOKENS : 1][BERT_PRECISE ? BERT_HIDDEN : 1];
    int8_t ffn_low[BERT_PRECISE ? BERT_FFN : 1];
    int8_t head_low[BERT_PRECISE ? BERT_HIDDEN : 1];
} bert_workspace;

#if BERT_GIVEN
/* The BERT_LABELS logits of one image, by its rows: BERT_TOKENS of BERT_HIDDEN, token by token, in
   the steps that bert_shape.h says. BERT_OK or BERT_BAD_POINTER. */
int bert_infer(bert_workspace *workspace, const int16_t *rows, int32_t *logits);
#else
/* The BERT_LABELS logits of one text; where BERT_EVERY is 1 as many for each of its tokens,
   token by token, at most BERT_LOGITS. ids, types: `tokens` values each; types are segment ids,
   NULL for all 0. */
int bert_infer(bert_workspace *workspace, const uint32_t *ids, const uint8_t *types, int tokens,
               int32_t *logits);
#endif

/* A sentence for what bert_infer returned. */
const char *bert_message(int code);

#ifdef __cplusplus
}
#endif

#endif
