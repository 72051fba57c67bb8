//go:build !noasm

package gcm

//lint:file-ignore U1000 Only assembly reads these tables.

import "encoding/binary"

// counters are the counter blocks of the longest text, with a nonce of zero. That of number 1 masks the
// tag, that of number 2 is the first block's.
var counters = func() (blocks [2 + MaxBytes/blockBytes][blockBytes]byte) {
	for i := range blocks {
		binary.BigEndian.PutUint32(blocks[i][NonceBytes:], uint32(i))
	}
	return blocks
}()
