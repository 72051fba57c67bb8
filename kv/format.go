package kv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/quant"
)

// Format is the precision of stored keys and values. A token is quantized once, when
// it is stored; later tokens do not change it.
type Format uint8

// The formats.
const (
	// F32 stores the computed float32 values.
	F32 Format = iota
	// K8V8 quantizes each key head and value head of a token to 8 bits with its own
	// scale.
	K8V8
	// K8F8 is K8V8 with values in 8-bit floats (e4m3).
	K8F8
	// K4V8 is K8V8 with keys in 4 bits, with a scale and an offset for each 32
	// elements.
	K4V8
	// F16 stores 16-bit floats. Elements beyond their range, 65504, become infinite
	// and so do all results that depend on them.
	F16
)

var formatNames = [...]string{F32: "f32", K8V8: "k8v8", K8F8: "k8f8", K4V8: "k4v8", F16: "f16"}

// Formats lists all formats.
func Formats() []Format { return []Format{F32, F16, K8V8, K8F8, K4V8} }

// Smallest is the format that needs the least memory.
const Smallest = K4V8

// ParseFormat returns the format with a name, as String prints it.
func ParseFormat(name string) (Format, error) {
	if f := slices.Index(formatNames[:], name); f >= 0 {
		return Format(f), nil
	}
	return F32, fmt.Errorf("kv: unknown format %q: use one of %s", name, strings.Join(formatNames[:], ", "))
}

// String returns the format's name.
func (f Format) String() string { return formatNames[f] }

// Codes reports whether keys and values are integer codes of at most 8 bits.
// Attention multiplies these with quantized queries and reads them with Block8.
func (f Format) Codes() bool { return f == K8V8 || f == K8F8 || f == K4V8 }

// Keys in codes are padded to a multiple of keyGroup elements.
const keyGroup = 32

// KeyCols returns the elements of a padded key in codes: the integer kernels process
// keyGroup elements at a time.
func KeyCols(headDim int) int { return (headDim + keyGroup - 1) / keyGroup * keyGroup }

// keyBytes returns the size of the keys of a KV head block, including their scales.
func (f Format) keyBytes(headDim int) int {
	switch f {
	case K8V8, K8F8:
		return BlockTokens * (KeyCols(headDim) + scaleBytes)
	case K4V8:
		return BlockTokens * KeyCols(headDim) / keyGroup * key4.BlockBytes()
	case F16:
		return BlockTokens * 2 * headDim
	}
	return BlockTokens * 4 * headDim
}

// scaleBytes is the size of a scale.
const scaleBytes = 4

// valueBytes returns the size of the values of a KV head block, including their
// scales. Values in codes are padded, so that the size of a token is a multiple of 4
// bytes in every format.
func (f Format) valueBytes(headDim int) int {
	switch f {
	case K8V8, K8F8, K4V8:
		return BlockTokens * ((headDim+3)/4*4 + scaleBytes)
	case F16:
		return BlockTokens * 2 * headDim
	}
	return BlockTokens * 4 * headDim
}

// BlockBytes returns the size of a KV head block. It is a multiple of 256, so that
// 1024 tokens of a layer are a multiple of 4 KiB, as direct reads require.
func (f Format) BlockBytes(headDim int) int { return f.keyBytes(headDim) + f.valueBytes(headDim) }

// key4 is the quantization type of 4-bit keys.
const key4 = quant.Q4_1
