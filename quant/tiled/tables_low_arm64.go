//go:build !noasm

package tiled

import "github.com/llmrun/llmrun/quant"

//lint:file-ignore U1000 Only assembly reads these tables.

// lowTablesNEON are the constants of the NEON kernels of low-bit formats.
type lowTablesNEON struct {
	even [128]uint64 // all bits of the bytes of negative elements, by seven signs; the eighth makes them even
	full [256]uint64 // by eight signs

	pick      [4][16]uint8 // VTBL indices: byte k of each lane in all its bytes
	bits      [2][16]uint8 // bits 0-3 and 4-7 of bytes 0-3
	fields    [16]int8     // shifts that move field j of byte j to bits 0 and 1
	levelsFP4 [16]uint8    // VTBL table: the values of 4-bit floats, doubled
}

var lowConstantsNEON = func() (c lowTablesNEON) {
	for signs := range c.full {
		for j := range 8 {
			c.full[signs] |= uint64(signs>>j&1) * 0xff << (8 * j)
		}
	}
	for i := range c.even {
		c.even[i] = c.full[quant.SignByte(uint8(i))]
	}
	for i := range 16 {
		for k := range c.pick {
			c.pick[k][i] = uint8(i/laneBytes*laneBytes + k)
		}
		c.bits[0][i], c.bits[1][i] = 1<<(i%4), 16<<(i%4)
		c.fields[i] = int8(-2 * (i % 4))
		c.levelsFP4[i] = e2m1[i] - 16
	}
	return c
}()
