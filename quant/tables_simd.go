//go:build !noasm && (amd64 || arm64)

package quant

//lint:file-ignore U1000 Only assembly reads the tables.

// f8Constants is what quantizeF8x16 loads, in that order.
var f8Constants = [...]uint32{1<<31 - 1, 0x80, f8AlignBits, 1, 0x7ffff, f8Rebias, f8NormalBits}
