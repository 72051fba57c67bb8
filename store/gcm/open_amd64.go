//go:build !noasm

package gcm

import (
	"encoding/binary"

	"golang.org/x/sys/cpu"
)

// Bits of features7.
const (
	hasVAES       = 1 << 9
	hasVPCLMULQDQ = 1 << 10
)

// paths are the fast paths of this processor, the fastest first.
var paths = findPaths(cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ)

// findPaths returns the paths for the instructions of the processor: openGroups with AVX-512,
// openGroups256 with AVX2, as Intel's have since Alder Lake and AMD's since Zen 3, and
// openGroups128 with AVX.
func findPaths(avx512 bool) (found []path) {
	if !cpu.X86.HasAES || !cpu.X86.HasPCLMULQDQ || !cpu.X86.HasAVX {
		return nil
	}
	if found7 := features7(); cpu.X86.HasAVX2 && found7&hasVAES != 0 && found7&hasVPCLMULQDQ != 0 {
		if avx512 {
			found = append(found, bits512)
		}
		found = append(found, bits256)
	}
	return append(found, bits128)
}

// open decrypts with a path; see openGroups.
func (p path) open(out, in *byte, groups int, t *table, counter, about, lengths, sum *[blockBytes]byte) {
	switch p {
	case bits512:
		openGroups(out, in, 2*groups, t, counter, about, lengths, sum)
	case bits256:
		openGroups256(out, in, groups, t, counter, about, lengths, sum)
	case bits128:
		openGroups128(out, in, 2*groups, t, counter, about, lengths, sum)
	}
}

// openGroups decrypts groups of 16 blocks, at least one, and sets sum to the tag: the GHASH of the
// block about, the ciphertext and the block lengths, plus the encrypted counter block. Its
// number is 1, that of the first block 2.
//
//go:noescape
func openGroups(out, in *byte, groups int, t *table, counter, about, lengths, sum *[blockBytes]byte)

// openGroups256 is openGroups for groups of 32 blocks.
//
//go:noescape
func openGroups256(out, in *byte, groups int, t *table, counter, about, lengths, sum *[blockBytes]byte)

//go:noescape
func openGroups128(out, in *byte, groups int, t *table, counter, about, lengths, sum *[blockBytes]byte)

// features7 returns the register ECX of CPUID leaf 7.
//
//go:noescape
func features7() uint32

// subWord applies the S-box of AES to each byte of x.
//
//go:noescape
func subWord(x uint32) uint32

// counters are the counter blocks of the longest text, with a nonce of zero. That of number 1 masks the
// tag, that of number 2 is the first block's.
//
//lint:ignore U1000 Only assembly reads it.
var counters = func() (blocks [2 + MaxBytes/blockBytes][blockBytes]byte) {
	for i := range blocks {
		binary.BigEndian.PutUint32(blocks[i][NonceBytes:], uint32(i))
	}
	return blocks
}()
