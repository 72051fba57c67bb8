package tiled

import (
	"encoding/binary"

	"github.com/llmrun/llmrun/quant"
)

// lowRow is one row's block of a low-bit format, decoded: the reference of the kernels.
type lowRow struct {
	block  [112]byte
	code   [256]byte // signed
	scale  [8]float32
	factor [16]float32
}

// points are the code books, the coordinates of a point in bytes. IQ1's are eight times the
// coordinates, plus the eighth that is added to them, or less it.
var points = struct {
	iq1      [2][2048]uint64
	iq2xxs   [256]uint64
	iq2xs    [512]uint64
	iq2s     [1024]uint64
	iq3xxs   [256]uint32
	iq3s     [512]uint32
	signs    [256]uint64 // all bits of the bytes of negative elements
	negative [16]uint32  // the same of four elements
}{}

func init() {
	wide := func(dst []uint64, t quant.Type, times, plus int8) {
		for i := range dst {
			for j, c := range quant.GridOf(t).Point(i) {
				dst[i] |= uint64(uint8(c*times+plus)) << (8 * j)
			}
		}
	}
	wide(points.iq1[0][:], quant.IQ1_S, 8, 1)
	wide(points.iq1[1][:], quant.IQ1_S, 8, -1)
	wide(points.iq2xxs[:], quant.IQ2_XXS, 1, 0)
	wide(points.iq2xs[:], quant.IQ2_XS, 1, 0)
	wide(points.iq2s[:], quant.IQ2_S, 1, 0)
	narrow := func(dst []uint32, t quant.Type) {
		for i := range dst {
			point := quant.GridOf(t).Point(i)
			for j, c := range point[:4] {
				dst[i] |= uint32(c) << (8 * j)
			}
		}
	}
	narrow(points.iq3xxs[:], quant.IQ3_XXS)
	narrow(points.iq3s[:], quant.IQ3_S)
	for i := range points.signs {
		for j := range 8 {
			points.signs[i] |= uint64(i>>j&1) * 0xff << (8 * j)
		}
	}
	for i := range points.negative {
		points.negative[i] = uint32(points.signs[i])
	}
}

// putSigned writes the eight coordinates of a point, none of them 0, with signs.
func (r *lowRow) putSigned(k int, point uint64, signs uint8) {
	mask := points.signs[signs]
	binary.LittleEndian.PutUint64(r.code[8*k:], (point^mask)+(mask&lowBits))
}

// putSigned4 writes the four coordinates of a point of IQ3.
func (r *lowRow) putSigned4(k int, point uint32, signs uint8) {
	mask := points.negative[signs&15]
	binary.LittleEndian.PutUint32(r.code[4*k:], (point^mask)+(mask&(lowBits&0xffffffff)))
}

// putShifted writes a point of IQ1; negative is 1 if an eighth is subtracted from it.
func (r *lowRow) putShifted(k, index int, negative uint8) {
	binary.LittleEndian.PutUint64(r.code[8*k:], points.iq1[negative&1][index])
}

// setScales sets the same scale for all groups.
func (r *lowRow) setScales(n int, scale float32) {
	for g := range n {
		r.scale[g] = scale
	}
}

// decode decodes block.
func (r *lowRow) decode(l *lowFormat) {
	d := quant.F16ToF32(l.half(r.block[:l.typ.BlockBytes()]))
	switch l.typ {
	case quant.IQ2_XXS:
		r.iq2xxs(d / 8)
	case quant.IQ2_XS:
		r.setScales(8, d/8)
		r.iq2xs()
	case quant.IQ2_S:
		r.setScales(8, d/8)
		r.iq2s()
	case quant.IQ3_XXS:
		r.iq3xxs(d / 4)
	case quant.IQ3_S:
		r.iq3s(d)
	case quant.IQ1_S:
		r.iq1s(d / 8)
	case quant.IQ1_M:
		r.setScales(8, d/8)
		r.iq1m()
	case quant.NVFP4:
		r.setScales(2, 1)
		r.nvfp4()
	default:
		r.setScales(l.groups, d)
		r.packedCodes(l.typ)
	}
}

// oddScale returns 2s+1 for a scale of 4 bits.
func oddScale(s uint8) float32 { return float32(2*(s&15) + 1) }

func (r *lowRow) iq2xxs(base float32) {
	for g := range 8 {
		part := r.block[2+8*g:][:8]
		word := binary.LittleEndian.Uint32(part[4:])
		r.scale[g] = base * oddScale(uint8(word>>28))
		for k := range 4 {
			r.putSigned(4*g+k, points.iq2xxs[part[k]], quant.SignByte(uint8(word>>(7*k)&127)))
		}
	}
}

// nibbleFactors sets the factors from 16 scales of 4 bits.
func (r *lowRow) nibbleFactors(scales []byte /* [8] */) {
	for g, s := range scales {
		r.factor[2*g], r.factor[2*g+1] = oddScale(s), oddScale(s>>4)
	}
}

func (r *lowRow) iq2xs() {
	r.nibbleFactors(r.block[66:74])
	for k := range 32 {
		code := binary.LittleEndian.Uint16(r.block[2+2*k:])
		r.putSigned(k, points.iq2xs[code&511], quant.SignByte(uint8(code>>9)))
	}
}

func (r *lowRow) iq2s() {
	r.nibbleFactors(r.block[74:82])
	for k := range 32 {
		index := int(r.block[2+k]) | int(r.block[66+k/4]>>(k%4*2)&3)<<8
		r.putSigned(k, points.iq2s[index], r.block[34+k])
	}
}

func (r *lowRow) iq3xxs(base float32) {
	for g := range 8 {
		word := binary.LittleEndian.Uint32(r.block[66+4*g:])
		r.scale[g] = base * oddScale(uint8(word>>28))
		for k := range 8 {
			signs := quant.SignByte(uint8(word >> (7 * (k / 2)) & 127))
			r.putSigned4(8*g+k, points.iq3xxs[r.block[2+8*g+k]], signs>>(k%2*4))
		}
	}
}

func (r *lowRow) iq3s(base float32) {
	for g := range 8 {
		r.scale[g] = base * oddScale(r.block[106+g/2]>>(g%2*4))
		for k := range 8 {
			index := int(r.block[2+8*g+k]) | int(r.block[66+g]>>k&1)<<8
			r.putSigned4(8*g+k, points.iq3s[index], r.block[74+4*g+k/2]>>(k%2*4))
		}
	}
}

func (r *lowRow) iq1s(base float32) {
	for g := range 8 {
		high := binary.LittleEndian.Uint16(r.block[34+2*g:])
		r.scale[g] = base * oddScale(uint8(high>>12&7))
		for k := range 4 {
			r.putShifted(4*g+k, int(r.block[2+4*g+k])|int(high>>(3*k)&7)<<8, uint8(high>>15))
		}
	}
}

func (r *lowRow) iq1m() {
	for h := range 16 {
		r.factor[h] = oddScale(uint8(binary.LittleEndian.Uint16(r.block[48+h/4*2:]) >> (h % 4 * 3) & 7))
	}
	for k := range 32 {
		nibble := r.block[32+k/2] >> (k % 2 * 4) & 15
		r.putShifted(k, int(r.block[k])|int(nibble&7)<<8, nibble>>3)
	}
}

func (r *lowRow) nvfp4() {
	for h := range 4 {
		r.factor[h] = quant.UE4M3Half(r.block[h])
		var low, high uint64
		for i, b := range r.block[4+8*h:][:8] {
			low |= uint64(e2m1[b&15]-16) << (8 * i)
			high |= uint64(e2m1[b>>4]-16) << (8 * i)
		}
		binary.LittleEndian.PutUint64(r.code[16*h:], low)
		binary.LittleEndian.PutUint64(r.code[16*h+8:], high)
	}
}

// lessOne subtracts 1 from eight bytes below 128.
func lessOne(bytes uint64) uint64 { return (bytes | signBits) - lowBits ^ signBits }

// packedCodes decodes the codes of the ternary formats, Q1_0 and Q2_0.
func (r *lowRow) packedCodes(t quant.Type) {
	switch t {
	case quant.TQ1_0:
		r.tq1()
	case quant.TQ2_0:
		for i := 0; i < 64; i += 8 {
			codes := binary.LittleEndian.Uint64(r.block[i:])
			for run := range 4 {
				binary.LittleEndian.PutUint64(r.code[i/32*128+32*run+i%32:], lessOne(codes>>(2*run)&(3*lowBits)))
			}
		}
	case quant.Q1_0: // 1 or -1
		for i, b := range r.block[2:18] {
			ones := points.signs[b]
			binary.LittleEndian.PutUint64(r.code[8*i:], ones&lowBits|^ones)
		}
	case quant.Q2_0:
		for i, b := range r.block[2:18] {
			copy(r.code[4*i:][:4], twoBitCodes[b][:])
		}
	}
}

// tq1 decodes the digits of runs of bytes, one after the other.
func (r *lowRow) tq1() {
	for _, run := range [...]struct{ at, size, digits, to int }{{0, 32, 5, 0}, {32, 16, 5, 160}, {48, 4, 4, 240}} {
		for n := range run.digits {
			table := &trits[n]
			to := r.code[run.to+n*run.size:][:run.size]
			for i, b := range r.block[run.at:][:run.size] {
				to[i] = table[b]
			}
		}
	}
}

// trits are the digits of bytes of TQ1_0, less 1, and twoBitCodes the four codes of bytes of Q2_0.
var trits, twoBitCodes = func() (digits [5][256]uint8, codes [256][4]uint8) {
	for b := range codes {
		for n := range digits {
			digits[n][b] = quant.Trit(uint8(b), n) - 1
		}
		for i := range codes[b] {
			codes[b][i] = uint8(b>>(2*i)&3) - 1
		}
	}
	return digits, codes
}()
