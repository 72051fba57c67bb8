//go:build !noasm

package quant

//go:noescape
func advanceNEON(to, from *float32, stride, keys int, k, q, v, out *float32, decay, weight, kq, skip float32, flags int)

func (k neon) advance(to, from []float32 /* [keys, stride] */, stride int, s MatrixStep, kq float32) {
	const width = 16 // columns in the kernel's registers
	columns, c := len(s.Value), 0
	for ; c+width <= columns; c += width {
		advanceNEON(&to[c], &from[c], stride, len(s.Key), &s.Key[0], s.query(), &s.Value[c], s.outAt(c),
			s.Decay, s.Weight, kq, s.Skip, s.flags())
	}
	if c < columns {
		k.advanceColumns(to, from, stride, &s, kq, c, columns)
	}
}
