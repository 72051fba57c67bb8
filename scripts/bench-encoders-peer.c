// Describes texts with llama.cpp (libllama v0.5.0, as node-llama-cpp 3.22.1 has it), many texts in a batch without padding.
// usage: bench-encoders-peer LIBRARIES MODEL TEXTS THREADS BATCH
// LIBRARIES is the directory of the libraries, of which it loads the fastest, or a library for a processor.
// TEXTS has a text in each line. It prints "texts N tokens N load S read S" and the first elements of the first vector.
// The library's header is not in the package: parameters are set at the offsets of this version, which are checked.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
typedef struct { _Alignas(8) char b[1024]; } params;
typedef struct { int32_t n; int32_t *token; float *embd; int32_t *pos, *n_seq; int32_t **seq; int8_t *output; } batch;
extern params llama_context_default_params(void), llama_model_default_params(void);
extern void llama_backend_init(void), *ggml_backend_load(const char *), ggml_backend_load_all_from_path(const char *), *llama_model_load_from_file(const char *, params), *llama_init_from_model(void *, params);
extern const void *llama_model_get_vocab(void *);
extern int32_t llama_tokenize(const void *, const char *, int32_t, int32_t *, int32_t, _Bool, _Bool), llama_model_n_embd(void *), llama_encode(void *, batch);
extern batch llama_batch_init(int32_t, int32_t, int32_t);
extern float *llama_get_embeddings_seq(void *, int32_t);
extern void llama_synchronize(void *), llama_log_set(void (*)(int, const char *, void *), void *);
enum { most_texts = 64, most_tokens = 8192 };
static void die(const char *why) { fprintf(stderr, "bench-encoders-peer: %s\n", why); exit(1); }
static void quiet(int level, const char *text, void *u) { (void)u; if (level == 4) fputs(text, stderr); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static int32_t get(params *p, int at) { int32_t v; memcpy(&v, p->b + at, 4); return v; }
static void set(params *p, int at, int32_t v) { memcpy(p->b + at, &v, 4); }
static double sum;
static float first[4];
static long described;
static void flush(void *context, batch *b, int texts, int width) {
    if (b->n == 0) return;
    if (llama_encode(context, *b)) die("llama_encode failed");
    llama_synchronize(context);
    for (int s = 0; s < texts; s++) {
        float *x = llama_get_embeddings_seq(context, s);
        if (!x) die("a text has no vector");
        double squares = 0;
        for (int i = 0; i < width; i++) squares += (double)x[i] * x[i];
        for (int i = 0; i < width; i++) sum += x[i] / sqrt(squares);
        if (described == 0) for (int i = 0; i < 4; i++) first[i] = (float)(x[i] / sqrt(squares));
        described++;
    }
    b->n = 0;
}
int main(int argc, char **argv) {
    if (argc != 6) die("usage: bench-encoders-peer LIBRARIES MODEL TEXTS THREADS BATCH");
    int threads = atoi(argv[4]), most = atoi(argv[5]);
    if (most < 1 || most > most_tokens) die("BATCH must be between 1 and 8192");
    llama_log_set(quiet, NULL);
    if (!strstr(argv[1], ".so")) ggml_backend_load_all_from_path(argv[1]);
    else if (!ggml_backend_load(argv[1])) die("the library does not load");
    llama_backend_init();
    double begun = now();
    void *model = llama_model_load_from_file(argv[2], llama_model_default_params());
    if (!model) die("the model does not load");
    params c = llama_context_default_params();
    if (get(&c, 0) != 512 || get(&c, 4) != 2048 || get(&c, 12) != 1 || get(&c, 28) != 4 || get(&c, 52) != -1 || get(&c, 104) != 1 || c.b[128] != 0 || c.b[129] != 1)
        die("another version of the library");
    set(&c, 0, most), set(&c, 4, most), set(&c, 8, most), set(&c, 12, most_texts), set(&c, 28, threads), set(&c, 32, threads);
    c.b[128] = 1; // vectors
    c.b[133] = 1; // all texts share the context
    void *context = llama_init_from_model(model, c);
    if (!context) die("no context");
    const void *vocab = llama_model_get_vocab(model);
    batch b = llama_batch_init(most, 0, 1);
    FILE *f = fopen(argv[3], "r");
    if (!f) die("the texts cannot be read");
    char *line = NULL;
    size_t room = 0;
    int texts = 0, width = llama_model_n_embd(model);
    long tokens = 0;
    static int32_t ids[most_tokens];
    double loaded = now();
    for (ssize_t n; (n = getline(&line, &room, f)) > 0;) {
        while (n > 0 && line[n - 1] == '\n') n--;
        int32_t k = llama_tokenize(vocab, line, (int32_t)n, ids, most_tokens, 1, 0);
        if (k < 1 || k > most) die("a text is longer than BATCH");
        if (b.n + k > most || texts == most_texts) flush(context, &b, texts, width), texts = 0;
        for (int i = 0; i < k; i++, b.n++) b.token[b.n] = ids[i], b.pos[b.n] = i, b.n_seq[b.n] = 1, b.seq[b.n][0] = texts, b.output[b.n] = 1;
        tokens += k, texts++;
    }
    flush(context, &b, texts, width);
    printf("texts %ld tokens %ld load %.3f read %.3f sum %.4f first %.5f %.5f %.5f %.5f\n", described, tokens, loaded - begun, now() - loaded, sum, first[0], first[1], first[2], first[3]);
    fflush(stdout);
    _Exit(0);
}
