// Times decoding of several sequences at the same time with llama.cpp (libllama v0.5.0, as node-llama-cpp 3.22.1 has it).
// usage: bench-batch-peer LIBRARIES MODEL THREADS TOKENS SEQUENCES...
// LIBRARIES is the directory of the libraries, of which it loads the fastest, or a library for a processor.
// It prints a line "SEQUENCES TOK_PER_S" for each number of sequences: of all together, without the choice of tokens. Keys and values are in
// q8_0, attention is flash attention, weights are repacked as by default.
// The library's header is not in the package: parameters are set at the offsets of this version, which are checked.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
typedef struct { _Alignas(8) char b[1024]; } params;
typedef struct { int32_t n; int32_t *token; float *embd; int32_t *pos, *n_seq; int32_t **seq; int8_t *output; } batch;
extern params llama_context_default_params(void), llama_model_default_params(void);
extern void llama_backend_init(void), *ggml_backend_load(const char *), ggml_backend_load_all_from_path(const char *), *llama_model_load_from_file(const char *, params), *llama_init_from_model(void *, params);
extern int32_t llama_decode(void *, batch);
extern batch llama_batch_init(int32_t, int32_t, int32_t);
extern void *llama_get_memory(void *), llama_memory_clear(void *, _Bool), llama_free(void *), llama_synchronize(void *), llama_log_set(void (*)(int, const char *, void *), void *);
enum { most_sequences = 64, q8_0 = 8, pages = 256, first_bytes = 256 };
static void die(const char *why) { fprintf(stderr, "bench-batch-peer: %s\n", why); exit(1); }
static void quiet(int level, const char *text, void *u) { (void)u; if (level == 4) fputs(text, stderr); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static int32_t get(params *p, int at) { int32_t v; memcpy(&v, p->b + at, 4); return v; }
static void set(params *p, int at, int32_t v) { memcpy(p->b + at, &v, 4); }
// decode gives each sequence a number of tokens, of all sequences the next one at a time.
static void decode(void *context, batch *b, int sequences, int tokens) {
    for (int pos = 0; pos < tokens; pos++) {
        b->n = sequences;
        for (int s = 0; s < sequences; s++) b->token[s] = (pos * 7919 + 1 + s) % first_bytes, b->pos[s] = pos, b->n_seq[s] = 1, b->seq[s][0] = s, b->output[s] = 1;
        if (llama_decode(context, *b)) die("llama_decode failed");
        llama_synchronize(context);
    }
}
int main(int argc, char **argv) {
    if (argc < 6) die("usage: bench-batch-peer LIBRARIES MODEL THREADS TOKENS SEQUENCES...");
    int threads = atoi(argv[3]), tokens = atoi(argv[4]);
    if (tokens < 1) die("TOKENS must be at least 1");
    llama_log_set(quiet, NULL);
    if (!strstr(argv[1], ".so")) ggml_backend_load_all_from_path(argv[1]);
    else if (!ggml_backend_load(argv[1])) die("the library does not load");
    llama_backend_init();
    void *model = llama_model_load_from_file(argv[2], llama_model_default_params());
    if (!model) die("the model does not load");
    batch b = llama_batch_init(most_sequences, 0, 1);
    for (int i = 5; i < argc; i++) {
        int n = atoi(argv[i]);
        if (n < 1 || n > most_sequences) die("SEQUENCES must be between 1 and 64");
        params c = llama_context_default_params();
        if (get(&c, 0) != 512 || get(&c, 4) != 2048 || get(&c, 12) != 1 || get(&c, 28) != 4 || get(&c, 52) != -1 || get(&c, 104) != 1 || get(&c, 108) != 1)
            die("another version of the library");
        set(&c, 0, n * ((tokens + pages - 1) / pages * pages)), set(&c, 12, n), set(&c, 28, threads), set(&c, 32, threads), set(&c, 52, 1);
        set(&c, 104, q8_0), set(&c, 108, q8_0);
        void *context = llama_init_from_model(model, c);
        if (!context) die("no context");
        decode(context, &b, n, tokens < 4 ? tokens : 4);
        llama_memory_clear(llama_get_memory(context), 0);
        double begun = now();
        decode(context, &b, n, tokens);
        printf("%d %.3f\n", n, n * tokens / (now() - begun));
        llama_free(context);
    }
    fflush(stdout);
    _Exit(0);
}
