package quant

import "encoding/binary"

// Parts says what a row of a format is made of: codes, and for each group of
// them a scale and perhaps an offset. Other processors keep these in a layout of
// their own and compute what DequantRow does:
//
//	x = scale·code             rounded once
//	x = (scale·code) + offset  where there are offsets; each operation rounded
type Parts struct {
	Low, High int8 // range of the codes, inclusive
	Group     int  // codes that share a scale
	Offsets   bool
	// Half says that every scale is a binary16 number.
	Half bool
}

// PartsOf returns what rows of a format are made of; ok is false for floats and
// for formats that cannot be taken apart so.
func PartsOf(t Type) (p Parts, ok bool) {
	switch t {
	case Q4_0:
		return Parts{Low: -8, High: 7, Group: 32, Half: true}, true
	case Q4_1:
		return Parts{High: 15, Group: 32, Offsets: true, Half: true}, true
	case Q5_0:
		return Parts{Low: -16, High: 15, Group: 32, Half: true}, true
	case Q5_1:
		return Parts{High: 31, Group: 32, Offsets: true, Half: true}, true
	case Q8_0:
		return Parts{Low: -128, High: 127, Group: 32, Half: true}, true
	case Q4_K:
		return Parts{High: 15, Group: 32, Offsets: true}, true
	case Q5_K:
		return Parts{High: 31, Group: 32, Offsets: true}, true
	case Q6_K:
		return Parts{Low: -32, High: 31, Group: 16}, true
	}
	return Parts{}, false
}

// SplitRow takes a row apart. offsets may be nil where the format has none.
func SplitRow(t Type, codes []int8 /* [cols] */, scales, offsets []float32 /* [cols/Group] */, src []byte) {
	split, elems, size := splitters[t], t.BlockElems(), t.BlockBytes()
	groups := elems / mustParts(t).Group
	for b := range len(codes) / elems {
		var add []float32
		if offsets != nil {
			add = offsets[b*groups:][:groups]
		}
		split(codes[b*elems:][:elems], scales[b*groups:][:groups], add, src[b*size:][:size])
	}
}

func mustParts(t Type) Parts {
	p, ok := PartsOf(t)
	if !ok {
		panic("quant: rows of " + t.String() + " cannot be taken apart")
	}
	return p
}

// splitters take one block apart.
var splitters = map[Type]func(codes []int8, scales, offsets []float32, src []byte){
	Q4_0: func(codes []int8, scales, _ []float32, src []byte) {
		scales[0] = f16At(src)
		splitNibbles(codes, src[2:18], 0, -8)
	},
	Q4_1: func(codes []int8, scales, offsets []float32, src []byte) {
		scales[0], offsets[0] = f16At(src), f16At(src[2:])
		splitNibbles(codes, src[4:20], 0, 0)
	},
	Q5_0: func(codes []int8, scales, _ []float32, src []byte) {
		scales[0] = f16At(src)
		splitNibbles(codes, src[6:22], binary.LittleEndian.Uint32(src[2:]), -16)
	},
	Q5_1: func(codes []int8, scales, offsets []float32, src []byte) {
		scales[0], offsets[0] = f16At(src), f16At(src[2:])
		splitNibbles(codes, src[8:24], binary.LittleEndian.Uint32(src[4:]), 0)
	},
	Q8_0: func(codes []int8, scales, _ []float32, src []byte) {
		scales[0] = f16At(src)
		for i, b := range src[2:34] {
			codes[i] = int8(b)
		}
	},
	Q4_K: func(codes []int8, scales, offsets []float32, src []byte) {
		splitK(codes, scales, offsets, src, nil, src[16:])
	},
	Q5_K: func(codes []int8, scales, offsets []float32, src []byte) {
		splitK(codes, scales, offsets, src, src[16:48], src[48:])
	},
	Q6_K: splitQ6,
}

// splitNibbles gives a block of 32 its codes: nibbles with a fifth bit, moved by
// zero.
func splitNibbles(codes []int8 /* [32] */, packed []byte /* [16] */, fifth uint32, zero int) {
	for i, b := range packed {
		codes[i] = int8(int(b&0xf) + int(fifth>>i&1)<<4 + zero)
		codes[i+16] = int8(int(b>>4) + int(fifth>>(i+16)&1)<<4 + zero)
	}
}

// splitK takes a superblock of Q4_K or Q5_K apart, see blockQ4_K and blockQ5_K.
func splitK(codes []int8 /* [256] */, scales, offsets []float32 /* [8] */, src, fifth, packed []byte) {
	d, dmin := f16At(src), f16At(src[2:])
	for group := range scales {
		s, m := scaleMinK4(src[4:16], group)
		scales[group], offsets[group] = d*float32(s), -(dmin * float32(m))
		for i, b := range packed[group/2*32:][:32] {
			code := b >> (group % 2 * 4) & 0xf
			if fifth != nil {
				code |= fifth[i] >> group & 1 << 4
			}
			codes[32*group+i] = int8(code)
		}
	}
}

// splitQ6 takes a superblock of Q6_K apart, see blockQ6_K.
func splitQ6(codes []int8 /* [256] */, scales, _ []float32 /* [16] */, src []byte) {
	nibbles, pairs, d := src[:128], src[128:192], f16At(src[208:])
	for group := range scales {
		scales[group] = d * float32(int8(src[192+group]))
		half, run, part := group/8, group%8/2, group%2
		low := nibbles[64*half+32*(run%2)+16*part:][:16]
		high := pairs[32*half+16*part:][:16]
		for i, b := range low {
			codes[16*group+i] = int8(int(b>>(run/2*4)&0xf)|int(high[i]>>(2*run)&3)<<4) - 32
		}
	}
}
