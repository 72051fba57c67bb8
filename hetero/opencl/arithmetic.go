package opencl

import (
	"fmt"
	"slices"
)

// Arithmetic is what products of many tokens are computed in.
type Arithmetic int

// The kinds, as kernels/common.cl numbers them.
const (
	Floats Arithmetic = iota
	// Halves rounds weights and inputs to half precision, multiplies and adds them so
	// within a block of 32 columns, and adds blocks in float. Numbers beyond 65504 do not
	// fit.
	Halves
	// EmulatedHalves is Halves in float that is rounded after each step, for tests on
	// devices without arithmetic in half precision.
	EmulatedHalves
)

// ArithmeticVariable is the environment variable that says what products of many
// tokens are computed in, on devices that have it: "float", as without it, or "half".
const ArithmeticVariable = "LLMRUN_OPENCL_ARITHMETIC"

// String names the kind.
func (a Arithmetic) String() string {
	return [...]string{Floats: "float", Halves: "half", EmulatedHalves: "emulated half"}[a]
}

// MarshalText is String, for reports.
func (a Arithmetic) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// options returns what kernels are built with.
func (a Arithmetic) options() string {
	if a == Floats {
		return ""
	}
	return fmt.Sprintf(" -DHALF=%d", a)
}

// tolerance bounds what rounding to 11 bits adds to an element's error, see
// Product.Tolerance: of a weight, of the input, of their product on devices that round
// it before they add it, and of each sum within a block.
func (a Arithmetic) tolerance() float64 {
	if a == Floats {
		return 0
	}
	return (3 + blockElems) * 0x1p-11
}

// arithmeticOf finds what the environment asks for.
func arithmeticOf(name string) (Arithmetic, error) {
	return choice(ArithmeticVariable, name, Floats, Halves)
}

// halves reports whether a device with some extensions computes in half precision as
// Product.Tolerance has it. Some may round toward zero.
func halves(q *query, extensions []string) bool {
	return slices.Contains(extensions, "cl_khr_fp16") && q.number(deviceHalfConfig, 8)&roundToNearest != 0
}
