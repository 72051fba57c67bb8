//go:build !noasm

package tiled

// neon is the path of every arm64 processor. Its panels are centred: codes are
// signed, less the format's zero, and sums of integers begin with nothing. start is
// read by vector kernels only.
//
// Products are float32(i)·scale where plain Go adds a zero to that, which makes
// -0 a +0, and with factors float32(i) itself may be -0. It takes an underflow to
// -0 to see the difference.
//
// That the kernels are right was proven under emulation, with and without the
// features of the other paths; how fast they are was never measured.
type neon struct{ portable }

// neonDot is the path of processors with dot products of bytes (DotProd, most
// since 2018). Only it and the next have vector kernels; without them a single
// token is multiplied with panels as many are.
type neonDot struct{ neon }

// neonMatrix is the path of processors with products of small matrices of bytes
// (I8MM, most since 2021).
type neonMatrix struct{ neonDot }

func (neon) name() string { return "neon" }

//go:noescape
func quantizeNEON(a *quantizeArgs)

func (neon) quantize(a quantizeArgs) { quantizeNEON(&a) }

//go:noescape
func copyNEON(a *copyArgs)

func (neon) copyResults(a *copyArgs) { copyNEON(a) }
