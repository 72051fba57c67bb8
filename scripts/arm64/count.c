// Plugin for qemu's user emulation: counts executed instructions and loaded bytes.
//
// It prints the counts when the program writes to file descriptor 1000 (write(1000, 0,
// NUMBER)) and when the program ends, in lines "count NUMBER INSTRUCTIONS BYTES", and
// writes the count of each block to the file named with blocks=FILE.
//
// It declares the functions of the plugin interface that it calls, so that it needs no
// headers of qemu. PLUGIN_API is the version of the interface.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PLUGIN_API
#define PLUGIN_API 1
#endif

typedef uint64_t plugin_id;
struct tb;
struct insn;

enum { NO_REGISTERS = 0, MARK = 1000, WRITE = 64, MOST_THREADS = 1024 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct tb *, void (*)(unsigned, void *), int, void *);
extern void qemu_plugin_register_vcpu_syscall_cb(plugin_id, void (*)(plugin_id, unsigned, int64_t, uint64_t, uint64_t,
    uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));
extern void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
extern size_t qemu_plugin_tb_n_insns(const struct tb *);
extern uint64_t qemu_plugin_tb_vaddr(const struct tb *);
extern struct insn *qemu_plugin_tb_get_insn(const struct tb *, size_t);
#if PLUGIN_API >= 3
extern size_t qemu_plugin_insn_data(const struct insn *, void *, size_t);
#else
extern const void *qemu_plugin_insn_data(const struct insn *);
#endif

__attribute__((visibility("default"))) int qemu_plugin_version = PLUGIN_API;

struct block {
    uint64_t address, length, bytes, runs;
    struct block *next;
};

// counts are those of one thread, which alone changes them.
struct counts { uint64_t instructions, loaded, unused[6]; };

static struct counts threads[MOST_THREADS];
static uint64_t vector_length = 16;
static const char *blocks_file;
static struct block *blocks;

// field returns bits high to low.
static unsigned field(uint32_t code, int high, int low) { return code >> low & ((1u << (high - low + 1)) - 1); }

static uint32_t code_of(const struct insn *insn)
{
    uint32_t code = 0;
#if PLUGIN_API >= 3
    qemu_plugin_insn_data(insn, &code, sizeof code);
#else
    memcpy(&code, qemu_plugin_insn_data(insn), sizeof code);
#endif
    return code;
}

// sve_bytes returns the bytes that an SVE load reads if its predicate is all true.
static uint64_t sve_bytes(uint32_t code)
{
    static const uint8_t memory[] = {0, 0, 0, 0, 2, 1, 1, 1, 1, 1, 2, 2, 0, 0, 0, 3}; // by dtype
    static const uint8_t lane[] = {0, 1, 2, 3, 3, 1, 2, 3, 3, 2, 2, 3, 3, 2, 1, 3};
    unsigned form = field(code, 15, 13), type = field(code, 24, 21);
    if (code >> 25 == 0x52) { // contiguous
        if (form < 2)
            return 16; // LD1RQ
        if (form >= 6)
            return vector_length * (field(code, 22, 21) + 1); // LDNT1, LD2 to LD4
        return vector_length >> (lane[type] - memory[type]);
    }
    if (code >> 25 != 0x42)
        return 0;
    if (code >> 22 == 0x216)
        return form == 2 ? vector_length : vector_length / 8; // LDR of a vector or a predicate
    if (field(code, 22, 22) && form >= 4)
        return UINT64_C(1) << memory[field(code, 24, 23) << 2 | field(code, 14, 13)]; // LD1R
    return vector_length; // gathers
}

// structure_bytes returns the bytes that LD1 to LD4 and LD1R to LD4R read.
static uint64_t structure_bytes(uint32_t code)
{
    static const uint8_t registers[] = {4, 0, 4, 0, 3, 0, 3, 1, 2, 0, 2, 0, 0, 0, 0, 0};
    if (!field(code, 22, 22))
        return 0;
    if (!field(code, 24, 24))
        return registers[field(code, 15, 12)] * (field(code, 30, 30) ? 16 : 8);
    unsigned scale = field(code, 15, 14), count = (field(code, 13, 13) << 1 | field(code, 21, 21)) + 1;
    if (scale == 3)
        scale = field(code, 11, 10);
    else if (scale == 2)
        scale += field(code, 10, 10);
    return (uint64_t)count << scale;
}

// register_bytes returns the bytes that a load of one register, or an atomic operation, reads.
static uint64_t register_bytes(uint32_t code)
{
    unsigned size = field(code, 31, 30), kind = field(code, 23, 22);
    if (field(code, 26, 26))
        return kind == 1 ? UINT64_C(1) << size : kind == 3 ? 16 : 0;
    bool atomic = !field(code, 24, 24) && field(code, 21, 21) && !field(code, 11, 10);
    bool prefetch = size == 3 && kind == 2;
    return atomic || (kind > 0 && !prefetch) ? UINT64_C(1) << size : 0;
}

// loaded_bytes returns the bytes that an instruction reads from memory. The sizes of
// A64's loads are constants.
static uint64_t loaded_bytes(uint32_t code)
{
    unsigned size = field(code, 31, 30);
    bool vector = field(code, 26, 26), load = field(code, 22, 22);
    if (field(code, 28, 25) == 2)
        return sve_bytes(code);
    if (!field(code, 27, 27) || field(code, 25, 25))
        return 0;
    switch (field(code, 29, 27)) {
    case 1: // LD1 to LD4, or exclusive
        return vector ? structure_bytes(code) : load ? UINT64_C(1) << size : 0;
    case 3: // literal
        return vector ? UINT64_C(4) << size : size == 1 ? 8 : size == 3 ? 0 : 4;
    case 5: // pair
        return !load ? 0 : vector ? UINT64_C(8) << size : size == 2 ? 16 : 8;
    case 7:
        return register_bytes(code);
    }
    return 0;
}

static void run(unsigned cpu, void *data)
{
    struct block *b = data;
    struct counts *c = &threads[cpu % MOST_THREADS];
    c->instructions += b->length;
    c->loaded += b->bytes;
    b->runs++;
}

static void translate(plugin_id id, struct tb *tb)
{
    struct block *b = calloc(1, sizeof *b);
    (void)id;
    if (b == NULL)
        abort();
    b->address = qemu_plugin_tb_vaddr(tb);
    b->length = qemu_plugin_tb_n_insns(tb);
    b->next = blocks;
    blocks = b;
    for (size_t i = 0; i < b->length; i++)
        b->bytes += loaded_bytes(code_of(qemu_plugin_tb_get_insn(tb, i)));
    qemu_plugin_register_vcpu_tb_exec_cb(tb, run, NO_REGISTERS, b);
}

static void report(const char *name)
{
    uint64_t instructions = 0, loaded = 0;
    for (int i = 0; i < MOST_THREADS; i++) {
        instructions += threads[i].instructions;
        loaded += threads[i].loaded;
    }
    fprintf(stderr, "count %s %" PRIu64 " %" PRIu64 "\n", name, instructions, loaded);
}

static void system_call(plugin_id id, unsigned cpu, int64_t number, uint64_t file, uint64_t text, uint64_t length,
    uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
    char name[24];
    (void)id, (void)cpu, (void)text, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number != WRITE || file != MARK)
        return;
    snprintf(name, sizeof name, "%" PRIu64, length);
    report(name);
}

static void end(plugin_id id, void *data)
{
    (void)id, (void)data;
    report("end");
    if (blocks_file == NULL)
        return;
    FILE *f = fopen(blocks_file, "w");
    if (f == NULL) {
        perror(blocks_file);
        return;
    }
    for (struct block *b = blocks; b != NULL; b = b->next)
        if (b->runs > 0)
            fprintf(f, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", b->address, b->length, b->runs);
    fclose(f);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "blocks=", 7) == 0)
            blocks_file = argv[i] + 7;
        else if (strncmp(argv[i], "vector=", 7) == 0)
            vector_length = strtoull(argv[i] + 7, NULL, 10);
        else
            return fprintf(stderr, "count: unknown argument %s; use blocks=FILE or vector=BYTES\n", argv[i]), -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_vcpu_syscall_cb(id, system_call);
    qemu_plugin_register_atexit_cb(id, end, NULL);
    return 0;
}
