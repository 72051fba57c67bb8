// Runs llama.cpp's libraries on token ids, for counting instructions.
//
// usage: peer DIRECTORY CPU_LIBRARY MODEL.gguf KV PROMPT DEPTH
//
// It loads DIRECTORY/CPU_LIBRARY (auto: the library that llama.cpp itself picks) and
// computes, with one thread, flash attention and keys and values of type KV (q8_0 or
// f16): two tokens behind one, a prompt of PROMPT tokens, and two tokens behind DEPTH
// tokens; 0 leaves out a prompt or a depth. Before and after each part it calls
// write(1000, 0, NUMBER), which the plugin count.c reports.
//
// It declares what it calls itself. Parameters are passed in blocks that are larger
// than llama.cpp's, which the calling convention of arm64 allows; the few fields that it
// sets are at the offsets of the release named below, and it checks their defaults.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Release v0.5.0.
enum {
    N_CTX = 0, N_BATCH = 4, N_UBATCH = 8, N_THREADS = 28, N_THREADS_BATCH = 32, FLASH = 52,
    TYPE_K = 104, TYPE_V = 108, F16 = 1, Q8_0 = 8,
};

struct params { unsigned char bytes[512]; };

struct batch {
    int32_t n;
    int32_t *token;
    float *embd;
    int32_t *pos, *n_seq_id, **seq_id;
    int8_t *logits;
};

static void *library;

static void *find(const char *name)
{
    void *f = dlsym(library, name);
    if (f == NULL) {
        fprintf(stderr, "peer: %s\n", dlerror());
        exit(1);
    }
    return f;
}

static void *open_library(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    void *l = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (l == NULL) {
        fprintf(stderr, "peer: %s\n", dlerror());
        exit(1);
    }
    return l;
}

static int32_t get(const struct params *p, int at)
{
    int32_t v;
    memcpy(&v, p->bytes + at, sizeof v);
    return v;
}

static void set(struct params *p, int at, int32_t v)
{
    memcpy(p->bytes + at, &v, sizeof v);
}

static void expect(const struct params *p, int at, int32_t want)
{
    if (get(p, at) == want)
        return;
    fprintf(stderr, "peer: another release of llama.cpp: the parameter at %d is %d, not %d\n", at, get(p, at), want);
    for (int i = 0; i < 160; i += 4)
        fprintf(stderr, "%d: %d\n", i, get(p, i));
    exit(1);
}

static void mark(int number)
{
    // The descriptor is closed: the call does nothing but tell the plugin.
    if (write(1000, "", number) >= 0)
        exit(1);
}

static void (*log_set)(void *, void *);
static void silent(int level, const char *text, void *data)
{
    (void)data;
    if (level >= 4)
        fputs(text, stderr);
}

static void *context;
static int (*decode)(void *, struct batch);
static int position;

// extend computes n tokens behind those that are there.
static void extend(int n)
{
    int32_t ids[4096];
    for (int i = 0; i < n; i++)
        ids[i] = (position + i) * 7919 % 256;
    if (decode(context, (struct batch){.n = n, .token = ids}) != 0) {
        fprintf(stderr, "peer: decoding %d tokens behind %d failed\n", n, position);
        exit(1);
    }
    position += n;
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: peer DIRECTORY CPU_LIBRARY MODEL.gguf KV PROMPT DEPTH\n");
        return 2;
    }
    int prompt = atoi(argv[5]), depth = atoi(argv[6]);
    library = open_library(argv[1], "libggml-base.so");
    library = open_library(argv[1], "libggml.v0.5.0.so");
    if (strcmp(argv[2], "auto") == 0) {
        void (*load_all)(const char *) = find("ggml_backend_load_all_from_path");
        load_all(argv[1]);
    } else {
        void *(*load)(const char *) = find("ggml_backend_load");
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], argv[2]);
        if (load(path) == NULL) {
            fprintf(stderr, "peer: %s does not run on this processor\n", path);
            return 1;
        }
    }
    library = open_library(argv[1], "libllama.v0.5.0.so");
    log_set = find("llama_log_set");
    log_set(silent, NULL);
    struct params (*model_defaults)(void) = find("llama_model_default_params");
    struct params (*context_defaults)(void) = find("llama_context_default_params");
    void *(*load_model)(const char *, struct params) = find("llama_model_load_from_file");
    void *(*new_context)(void *, struct params) = find("llama_init_from_model");
    decode = find("llama_decode");

    struct params mp = model_defaults(), cp = context_defaults();
    expect(&cp, N_CTX, 512);
    expect(&cp, N_BATCH, 2048);
    expect(&cp, N_UBATCH, 512);
    expect(&cp, N_THREADS, 4);
    expect(&cp, N_THREADS_BATCH, 4);
    expect(&cp, FLASH, -1);
    expect(&cp, TYPE_K, F16);
    expect(&cp, TYPE_V, F16);
    int most = prompt > depth ? prompt : depth;
    set(&cp, N_CTX, (most + 64 + 255) / 256 * 256);
    set(&cp, N_THREADS, 1);
    set(&cp, N_THREADS_BATCH, 1);
    set(&cp, FLASH, 1);
    if (strcmp(argv[4], "q8_0") == 0) {
        set(&cp, TYPE_K, Q8_0);
        set(&cp, TYPE_V, Q8_0);
    }
    void *model = load_model(argv[3], mp);
    if (model == NULL || (context = new_context(model, cp)) == NULL) {
        fprintf(stderr, "peer: cannot open %s\n", argv[3]);
        return 1;
    }
    extend(1);
    mark(1);
    extend(1);
    extend(1);
    mark(2);
    if (prompt > 0) {
        void *(*memory)(void *) = find("llama_get_memory");
        void (*clear)(void *, int) = find("llama_memory_clear");
        clear(memory(context), 1);
        position = 0;
        mark(3);
        extend(prompt);
        mark(4);
    }
    if (depth > position) {
        extend(depth - position);
        mark(5);
        extend(1);
        extend(1);
        mark(6);
    }
    return 0;
}
