package quant

import "fmt"

// WidenRows decodes rows of signed bytes with a scale for each:
// dst[r][i] = float32(src[r][i]) * scales[r].
func WidenRows(dst []float32 /* [rows, cols] */, src []int8 /* [rows, cols] */, scales []float32 /* [rows] */, cols int) {
	if len(src) < len(scales)*cols || len(dst) < len(scales)*cols {
		panic(fmt.Sprintf("quant: WidenRows of %d rows of %d exceeds its slices", len(scales), cols))
	}
	for r, s := range scales {
		active.widen(dst[r*cols:(r+1)*cols], src[r*cols:(r+1)*cols], s)
	}
}

func (portable) widen(dst []float32, src []int8, scale float32) {
	for i, v := range src {
		dst[i] = float32(v) * scale
	}
}
