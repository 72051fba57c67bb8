//go:build !noasm && (amd64 || arm64)

package quant

//lint:file-ignore U1000 Only assembly reads the tables.

// f8Constants is what quantizeF8x16 loads, in that order.
var f8Constants = [...]uint32{1<<31 - 1, 0x80, f8AlignBits, 1, 0x7ffff, f8Rebias, f8NormalBits}

// The tables of 4-bit indices as bytes.
var iq4Bytes, nf4Bytes, mxfp4Bytes = tableBytes(&iq4Values), tableBytes(&nf4Values), tableBytes(&mxfp4Values)

func tableBytes(values *[16]float32) (table [16]int8) {
	for i, v := range values {
		table[i] = int8(v)
	}
	return table
}
