//go:build !noasm

package quant

// fifthBytes are what FIFTH loads.
var fifthBytes = func() (all [48]uint8) {
	for i := range 32 {
		all[i] = uint8(i / 8)
	}
	for i := range 16 {
		all[32+i] = 1 << (i % 8)
	}
	return all
}()
