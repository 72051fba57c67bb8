package safetensors

import (
	"math"
	"math/bits"

	"github.com/llmrun/llmrun/quant"
)

// dtype is a number format of safetensors.
type dtype struct {
	bits int
	typ  quant.Type // Invalid if the engine has no such type
	// auxiliary formats hold masks, positions and packed integers. Tensors in these formats
	// are listed separately, for callers that know their meaning. A tensor in an
	// unsupported float format makes Open reject the file.
	auxiliary bool
}

var dtypes = map[string]dtype{
	"F32": {bits: 32, typ: quant.F32}, "F16": {bits: 16, typ: quant.F16}, "BF16": {bits: 16, typ: quant.BF16},
	"F64": {bits: 64}, "C64": {bits: 64},
	"F8_E4M3": {bits: 8}, "F8_E5M2": {bits: 8}, "F8_E8M0": {bits: 8},
	"F8_E4M3FNUZ": {bits: 8}, "F8_E5M2FNUZ": {bits: 8},
	"F6_E2M3": {bits: 6}, "F6_E3M2": {bits: 6}, "F4": {bits: 4},
	"BOOL": {bits: 8, auxiliary: true},
	"I8":   {bits: 8, auxiliary: true}, "U8": {bits: 8, auxiliary: true},
	"I16": {bits: 16, auxiliary: true}, "U16": {bits: 16, auxiliary: true},
	"I32": {bits: 32, auxiliary: true}, "U32": {bits: 32, auxiliary: true},
	"I64": {bits: 64, auxiliary: true}, "U64": {bits: 64, auxiliary: true},
}

// sizeOf returns the size of a tensor in bytes. ok is false if it overflows or is not a
// whole number of bytes.
func (d dtype) sizeOf(shape []int) (size int64, ok bool) {
	total := uint64(d.bits)
	for _, dim := range shape {
		high, low := bits.Mul64(total, uint64(dim))
		if high != 0 || low > math.MaxInt64 {
			return 0, false
		}
		total = low
	}
	return int64(total / 8), total%8 == 0
}

// dtypeFor returns the name of the dtype that corresponds to t.
func dtypeFor(t quant.Type) (string, bool) {
	for name, d := range dtypes {
		if d.typ == t && t.Valid() {
			return name, true
		}
	}
	return "", false
}
