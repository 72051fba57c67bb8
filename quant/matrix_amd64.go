//go:build !noasm

package quant

//go:noescape
func advanceAVX512(to, from *float32, stride, keys, columns int, k, q, v, out *float32, decay, weight, kq, skip float32, flags int)

//go:noescape
func advanceX4AVX2(to, from *float32, stride, keys, columns int, k, q, v, out *float32, decay, weight, kq, skip float32, flags int)

//go:noescape
func advanceX1AVX2(to, from *float32, stride, keys, columns int, k, q, v, out *float32, decay, weight, kq, skip float32, flags int)

func (avx512) advance(to, from []float32 /* [keys, stride] */, stride int, s MatrixStep, kq float32) {
	const width = 64 // columns in the kernel's registers
	columns, keys, flags := len(s.Value), len(s.Key), s.flags()
	for c := 0; c < columns; c += width {
		advanceAVX512(&to[c], &from[c], stride, keys, min(width, columns-c), &s.Key[0], s.query(), &s.Value[c], s.outAt(c),
			s.Decay, s.Weight, kq, s.Skip, flags)
	}
}

func (avx2) advance(to, from []float32 /* [keys, stride] */, stride int, s MatrixStep, kq float32) {
	columns, keys, flags := len(s.Value), len(s.Key), s.flags()
	c := 0
	for ; c+32 <= columns; c += 32 {
		advanceX4AVX2(&to[c], &from[c], stride, keys, 32, &s.Key[0], s.query(), &s.Value[c], s.outAt(c),
			s.Decay, s.Weight, kq, s.Skip, flags)
	}
	for ; c < columns; c += 8 {
		advanceX1AVX2(&to[c], &from[c], stride, keys, min(8, columns-c), &s.Key[0], s.query(), &s.Value[c], s.outAt(c),
			s.Decay, s.Weight, kq, s.Skip, flags)
	}
}
