package kv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/quant"
)

// Format is the precision in which keys and values are kept. However they are
// kept, a token is rounded once, when it is put; later tokens never touch it.
type Format uint8

// The formats.
const (
	// F32 keeps them as they were computed.
	F32 Format = iota
	// K8V8 rounds each key head and value head of a token to 8 bits with a
	// scale of its own.
	K8V8
	// K8F8 is K8V8 with values in floats of 8 bits (e4m3).
	K8F8
	// K4V8 is K8V8 with keys in 4 bits, with a scale and an offset for each 32
	// elements.
	K4V8
	// F16 keeps them in floats of 16 bits. What exceeds their range, 65504,
	// becomes infinite and shows in every result.
	F16
)

var formatNames = [...]string{F32: "f32", K8V8: "k8v8", K8F8: "k8f8", K4V8: "k4v8", F16: "f16"}

// Formats lists all formats.
func Formats() []Format { return []Format{F32, F16, K8V8, K8F8, K4V8} }

// Smallest is the format that takes the least memory.
const Smallest = K4V8

// ParseFormat returns the format of a name, as String gives it.
func ParseFormat(name string) (Format, error) {
	if f := slices.Index(formatNames[:], name); f >= 0 {
		return Format(f), nil
	}
	return F32, fmt.Errorf("kv: there is no format %q; there are %s", name, strings.Join(formatNames[:], ", "))
}

// String returns the format's name.
func (f Format) String() string { return formatNames[f] }

// Codes reports whether keys and values are kept in codes of 8 bits or fewer,
// which attention multiplies with rounded queries: they are read with Block8.
func (f Format) Codes() bool { return f == K8V8 || f == K8F8 || f == K4V8 }

// keyGroup is the multiple to which keys in codes are filled up.
const keyGroup = 32

// KeyCols returns the elements of a key in codes: its own, filled up with zeros
// to what the integer kernels take in one step.
func KeyCols(headDim int) int { return (headDim + keyGroup - 1) / keyGroup * keyGroup }

// keyBytes returns what the keys of one head take in a block, with their
// scales.
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

// valueBytes returns what the values of one head take in a block, with their
// scales. Those in codes are filled up, so that a token takes a multiple of 4
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

// BlockBytes returns the bytes that one head's keys and values of a block take.
// It is a multiple of 256, so that 1024 tokens of a layer are whole pages of 4 KiB, as
// reads past the page cache want them.
func (f Format) BlockBytes(headDim int) int { return f.keyBytes(headDim) + f.valueBytes(headDim) }

// key4 is the type of 4-bit keys.
const key4 = quant.Q4_1
