//go:build !noasm

package limits

// factors are what the loops multiply. Zeros would take less power than numbers
// do, and some processors run faster then.
var factors uint32 = 0x5A3C7E19
