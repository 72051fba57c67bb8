package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// section is a part of the page: works that differ in the format.
type section struct {
	title, about string
	rows         []row
}

// row is a work. share is its largest share of a token or a prompt in percent where it is computed
// in portable Go, and where that was measured.
type row struct {
	name, work string
	share      float64
	where      string
	decodes    bool // one of the kernels has to decode codes: see decoder
}

var packedTypes = []string{
	"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "I4Z", "NF4",
}

// lowTypes are the formats of 1 to 4 bits whose tiles keep the bytes of the file's blocks.
var lowTypes = []string{
	"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0", "NVFP4",
}

var rowTypes = append([]string{"F16", "BF16", "Q2_K", "Q3_K"}, packedTypes...)

// multiply lists the products of a number of tokens with each packed format.
func multiply(tokens int) (rows []row) { return multiplyTypes(packedTypes, tokens) }

func multiplyTypes(types []string, tokens int) (rows []row) {
	for _, t := range types {
		rows = append(rows, row{name: t, work: fmt.Sprintf("multiply%d/%s", tokens, t)})
	}
	return rows
}

// decoded lists the decoding of rows of each format. Embeddings are rows: one per token. Where
// weights are computed exactly, all rows are decoded, which takes most of a token in Go.
func decoded() (rows []row) {
	for _, t := range rowTypes {
		rows = append(rows, row{name: t, work: "row/" + t})
	}
	return rows
}

// highPlanes lists the products of one token with the high planes of formats.
func highPlanes() (rows []row) {
	for _, t := range []string{"Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "NF4"} {
		rows = append(rows, row{name: t + ", 3 bits of nibbles", work: "high3/" + t}, row{name: t + ", 2 bits of nibbles", work: "high5/" + t})
	}
	return append(rows, row{name: "Q8_0, 4 bits", work: "high1/Q8_0"})
}

// lowBit lists the products of low-bit formats. Decoding their codes takes longer than multiplying
// them, and the kernels that multiply do not show where it happens.
func lowBit(tokens int) []row {
	rows := multiplyTypes(lowTypes, tokens)
	for i := range rows {
		rows[i].decodes = true
	}
	return rows
}

const lowAbout = "Kernels named low… decode codes to a panel, which kernels of 8-bit codes multiply. " +
	"Processors with AVX-512 but without VBMI decode as AVX2 does."

var sections = []section{
	{
		title: "Products of one token (GEMV)", rows: multiply(1),
		about: "AMD's processors with AVX-512 have the same kernels of one to eight tokens with other prefetches, gemv…Near512 and small…Near512.",
	},
	{title: "Products of two tokens", rows: multiply(2)},
	{title: "Products of four tokens", rows: multiply(4)},
	{title: "Products of eight tokens", rows: multiply(8)},
	{title: "Products of 16 tokens", rows: multiply(16)},
	{title: "Products of a prompt (GEMM)", rows: multiply(512)},
	{title: "Products of low-bit formats, one token", rows: lowBit(1), about: lowAbout},
	{title: "Products of low-bit formats, a prompt", rows: lowBit(512)},
	{title: "Joining of planes", about: "Of weights in two planes; their products are those of whole codes.", rows: []row{
		{name: "8-bit codes, 4 bits and 4", work: "join1/Q8_0"},
		{name: "nibbles, 3 bits and 1", work: "join3/Q4_0"},
		{name: "nibbles, 2 bits and 2", work: "join5/Q4_0"},
	}},
	{title: "Products of one token with high planes", about: "Where there is no kernel for the plane, it is joined with fixed low bits first. Q4_0 has the kernels of NF4.", rows: highPlanes()},
	{title: "Rows of weights to float32", about: "For embeddings, and for all weights where they are computed exactly (Q2_K and Q3_K always are). Rows of low-bit formats are decoded in Go.", rows: decoded()},
	{title: "Weights of 16 bits, computed exactly", rows: []row{
		{name: "F16, one token", work: "exact1/F16"},
		{name: "F16, prompt", work: "exact8/F16"},
		{name: "BF16, one token", work: "exact1/BF16"},
		{name: "BF16, prompt", work: "exact8/BF16"},
	}},
	{title: "Attention", rows: []row{
		{name: "scores of 8-bit keys, one query", work: "scores1/k8"},
		{name: "scores of 8-bit keys, 8 queries", work: "scores8/k8"},
		{name: "scores of 4-bit keys, one query", work: "scores1/k4"},
		{name: "scores of 4-bit keys, 8 queries", work: "scores8/k4"},
		{name: "scores of F16 keys, one query", work: "scores1/f16"},
		{name: "scores of F16 keys, 8 queries", work: "scores8/f16"},
		{name: "scores of F32 keys, one query", work: "scores1/f32"},
		{name: "scores of F32 keys, 8 queries", work: "scores8/f32"},
		{name: "softmax of a block, 8-bit values", work: "softmax/8"},
		{name: "softmax of a block, F16 and F32", work: "softmax/float"},
		{name: "decay of a state", work: "exp"},
		{name: "weighing of 8-bit values, one query", work: "values1/v8"},
		{name: "weighing of 8-bit values, 8 queries", work: "values8/v8"},
		{name: "weighing of 8-bit floats, one query", work: "values1/f8"},
		{name: "weighing of 8-bit floats, 8 queries", work: "values8/f8"},
		{name: "weighing of F16 and F32 values, one query", work: "values1/float"},
		{name: "weighing of F16 and F32 values, 8 queries", work: "values8/float"},
		{name: "merging of spans", work: "addScaled"},
		{name: "rotation of heads (RoPE)", work: "rotate", share: 0.7, where: "[p]"},
		{name: "quantization of keys to 8 bits", work: "quantizeKV/k8"},
		{name: "quantization of keys to 4 bits", work: "quantizeKV/k4", share: 0.3, where: "[4]"},
		{name: "quantization of values to 8 bits", work: "quantizeKV/v8"},
		{name: "quantization of values to 8-bit floats", work: "quantizeKV/f8"},
		{name: "rounding of keys and values to F16", work: "quantizeKV/f16"},
	}},
	{title: "The rest of a layer", rows: []row{
		{name: "quantization of activations", work: "quantize"},
		{name: "RMSNorm", work: "rmsNorm"},
		{name: "LayerNorm, its sum of squares", work: "layerNorm"},
		{name: "SiLU and product", work: "silu"},
		{name: "GELU (tanh) and product", work: "geluTanh"},
		{name: "GELU (erf) and product", work: "geluErf"},
		{name: "soft cap", work: "softCap"},
		{name: "addition of residuals", work: "add"},
		{name: "multiplication by a number", work: "scale"},
		{name: "clamped SiLU and product", work: "clampedSilu"},
		{name: "squared ReLU", work: "relu2"},
		{name: "sigmoid gate", work: "sigmoid"},
		{name: "short convolution", work: "addProduct"},
		{name: "several residual streams (AltUp)", work: "addScaled"},
		{name: "step of a recurrent matrix", work: "advance"},
		{name: "combination of experts", work: "addScaled"},
	}},
	{title: "Outside the layers", rows: []row{
		{name: "the most probable token", work: "argMax"},
		{name: "check of logits", work: "allFinite"},
		{name: "sampling", work: "sample", share: 0.8, where: "[s]"},
		{name: "checksums of blocks (CRC-32C)", work: "crc"},
		{name: "opening of sealed blocks (AES-GCM)", work: "gcm"},
	}},
}

// measured explains the letters of cells in portable Go.
const measured = `Shares of a token or a prompt, the larger of the two, of processor time without waiting:

- [p] prompts of 256 tokens, qwen2.5-0.5b and llama-3.2-1b in Q4_0 and Q4_K_M; of a token less
- [4] a prompt of 512 tokens with a KV cache in k4v8, qwen2.5-0.5b in Q4_0
- [s] 150 tokens with --temp 0.8 (and with --top-k 40 --top-p 0.9 --repeat-penalty 1.1), qwen2.5-0.5b, 151,936 logits

Measured on 2026-11-26 on two virtual processors of an AMD EPYC (Zen 4) with LLMRUN_CPU=avx2 and with AVX-512,
` + "`perf record llmrun bench -m MODEL --threads 2 --pp 256 --tg 64 --depth 0,4096`" + `. No arm64 machine was available.
`

// fixed are the kernels of works outside package quant, by work and column.
type fixed map[string]map[string][]string

const (
	crcTable = "hash/crc32"
	library  = "crypto/cipher"
)

var fixedWorks = fixed{
	"crc": {
		"AVX2": {crcTable}, "AVX-VNNI": {crcTable}, "AVX-512": {"fold"}, "AMX": {"fold"},
		"NEON": {"fold"}, "DotProd": {"fold"}, "I8MM": {"fold"},
	},
	"gcm": {
		"AVX2": {"openGroups256 with VAES", "openGroups128"}, "AVX-VNNI": {"openGroups256"}, "AVX-512": {"openGroups"}, "AMX": {"openGroups"},
		"NEON": {library}, "DotProd": {library}, "I8MM": {library},
	},
	"rotate": {}, "sample": {},
}

// symbols are the assembly functions of fixedWorks, by the files that hold them.
var symbols = map[string]string{
	"store/crc/fold_amd64.s": "fold", "store/crc/fold_arm64.s": "fold", "store/gcm/open_amd64.s": "openGroups",
	"store/gcm/open256_amd64.s": "openGroups256", "store/gcm/open128_amd64.s": "openGroups128",
}

// verify checks that the assembly functions exist.
func (fixed) verify(root string) error {
	for path, symbol := range symbols {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), " ·"+symbol) {
			return fmt.Errorf("%s has no %s", path, symbol)
		}
	}
	return nil
}
