package quant

import (
	"fmt"
	"math"
)

// Type is the storage format of a tensor. Quantized formats group elements of
// a row into blocks of a fixed number of elements and bytes.
type Type uint8

// The formats that model files use today, with the names of the GGUF world, and
// two of this project: I4Z keeps what GPTQ and AWQ checkpoints hold, bit for bit,
// and NF4 has levels that suit normally distributed weights. Packs hold them,
// GGUF files do not.
const (
	Invalid Type = iota
	F32
	F16
	BF16
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	IQ4_NL
	IQ4_XS
	MXFP4
	I4Z
	NF4
	IQ1_S
	IQ1_M
	IQ2_XXS
	IQ2_XS
	IQ2_S
	IQ3_XXS
	IQ3_S
	TQ1_0
	TQ2_0
	Q1_0
	Q2_0
	NVFP4
	numTypes
)

// typeInfo is one row of the table of formats.
type typeInfo struct {
	name       string
	id         uint32 // the number that stands for it in files: that of GGUF, or one from firstOwnID on
	blockElems int
	blockBytes int
}

// firstOwnID begins the numbers of formats that GGUF does not have, far beyond
// those that it may give out.
const firstOwnID = 1 << 16

var types = [numTypes]typeInfo{
	F32:    {"F32", 0, 1, 4},
	F16:    {"F16", 1, 1, 2},
	BF16:   {"BF16", 30, 1, 2},
	Q4_0:   {"Q4_0", 2, 32, 18},
	Q4_1:   {"Q4_1", 3, 32, 20},
	Q5_0:   {"Q5_0", 6, 32, 22},
	Q5_1:   {"Q5_1", 7, 32, 24},
	Q8_0:   {"Q8_0", 8, 32, 34},
	Q2_K:   {"Q2_K", 10, 256, 84},
	Q3_K:   {"Q3_K", 11, 256, 110},
	Q4_K:   {"Q4_K", 12, 256, 144},
	Q5_K:   {"Q5_K", 13, 256, 176},
	Q6_K:   {"Q6_K", 14, 256, 210},
	IQ4_NL: {"IQ4_NL", 20, 32, 18},
	IQ4_XS: {"IQ4_XS", 23, 256, 136},
	MXFP4:  {"MXFP4", 39, 32, 17},
	I4Z:    {"I4Z", firstOwnID, 32, 19},
	NF4:    {"NF4", firstOwnID + 1, 32, 18},

	IQ1_S:   {"IQ1_S", 19, 256, 50},
	IQ1_M:   {"IQ1_M", 29, 256, 56},
	IQ2_XXS: {"IQ2_XXS", 16, 256, 66},
	IQ2_XS:  {"IQ2_XS", 17, 256, 74},
	IQ2_S:   {"IQ2_S", 22, 256, 82},
	IQ3_XXS: {"IQ3_XXS", 18, 256, 98},
	IQ3_S:   {"IQ3_S", 21, 256, 110},
	TQ1_0:   {"TQ1_0", 34, 256, 54},
	TQ2_0:   {"TQ2_0", 35, 256, 66},
	Q1_0:    {"Q1_0", 41, 128, 18},
	Q2_0:    {"Q2_0", 42, 64, 18},
	NVFP4:   {"NVFP4", 40, 64, 36},
}

// refusedGGUF names the GGUF types that exist but are not read here, so that
// the refusal can say which one a file holds.
var refusedGGUF = map[uint32]string{
	4: "Q4_2", 5: "Q4_3", 9: "Q8_1", 15: "Q8_K", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
	31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}

// Valid reports whether t names a format of this package.
func (t Type) Valid() bool { return t > Invalid && t < numTypes }

// String returns the format's usual name, such as "Q4_K".
func (t Type) String() string {
	if !t.Valid() {
		return fmt.Sprintf("Type(%d)", uint8(t))
	}
	return types[t].name
}

// BlockElems returns how many consecutive elements of a row share a block; 1
// for plain floats.
func (t Type) BlockElems() int { return types[t].blockElems }

// BlockBytes returns the bytes of one block.
func (t Type) BlockBytes() int { return types[t].blockBytes }

// IsFloat reports whether t stores plain floats.
func (t Type) IsFloat() bool { return t == F32 || t == F16 || t == BF16 }

// RowBytes returns the bytes of a row of cols elements. It fails when cols is
// negative, is not a whole number of blocks, or the product overflows.
func (t Type) RowBytes(cols int) (int, error) {
	if !t.Valid() {
		return 0, fmt.Errorf("quant: invalid type %d", uint8(t))
	}
	info := types[t]
	if cols < 0 || cols%info.blockElems != 0 {
		return 0, fmt.Errorf("quant: a row of %d elements is not a whole number of %s blocks of %d", cols, info.name, info.blockElems)
	}
	blocks := cols / info.blockElems
	if blocks > math.MaxInt/info.blockBytes {
		return 0, fmt.Errorf("quant: a row of %d %s elements overflows", cols, info.name)
	}
	return blocks * info.blockBytes, nil
}

// ParseType returns the format with the given name, such as "Q4_0" or "BF16".
func ParseType(name string) (Type, bool) {
	for t := F32; t < numTypes; t++ {
		if types[t].name == name {
			return t, true
		}
	}
	return Invalid, false
}

// FromGGUF returns the format that a GGUF tensor table calls id. For a format
// that exists but is not read here, the error gives its name.
func FromGGUF(id uint32) (Type, error) {
	if t, err := FromID(id); err != nil || t.InGGUF() {
		return t, err
	}
	return Invalid, unknownID(id)
}

// FromID is FromGGUF for files of this project, which may hold its own formats
// too; see [Type.ID].
func FromID(id uint32) (Type, error) {
	for t := F32; t < numTypes; t++ {
		if types[t].id == id {
			return t, nil
		}
	}
	if name, ok := refusedGGUF[id]; ok {
		return Invalid, fmt.Errorf("quant: tensor type %s (%d) is not supported", name, id)
	}
	return Invalid, unknownID(id)
}

func unknownID(id uint32) error { return fmt.Errorf("quant: unknown tensor type %d", id) }

// ID returns the number that stands for t in files: the one of GGUF tensor
// tables where these have t.
func (t Type) ID() uint32 { return types[t].id }

// InGGUF reports whether GGUF files can hold t.
func (t Type) InGGUF() bool { return t.Valid() && types[t].id < firstOwnID }
