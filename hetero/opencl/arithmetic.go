package opencl

import (
	"fmt"
	"slices"
)

// Arithmetic is what products of many tokens are computed in.
type Arithmetic int

// The kinds. kernels/common.cl numbers those in half precision so.
const (
	Floats Arithmetic = iota
	// Halves rounds weights and inputs to half precision, multiplies and adds them so
	// within a block of 32 columns, and adds blocks in float. Numbers beyond 65504 do not
	// fit.
	Halves
	// EmulatedHalves is Halves in float that is rounded after each step, for tests on
	// devices without arithmetic in half precision.
	EmulatedHalves
	// Tensors rounds weights and inputs to 11 bits with the range of floats (tf32), whose
	// products NVIDIA's devices add in float in units made for that, many times as fast.
	Tensors
	// EmulatedTensors is Tensors in float, for tests on other devices.
	EmulatedTensors
)

// ArithmeticVariable is the environment variable that says what products of many
// tokens are computed in: "float", "half" or "tensor". Without it, and on devices that do
// not have what it says, that is "tensor", or "float" where there are no such units.
const ArithmeticVariable = "LLMRUN_OPENCL_ARITHMETIC"

// String names the kind.
func (a Arithmetic) String() string {
	return [...]string{
		Floats: "float", Halves: "half", EmulatedHalves: "emulated half", Tensors: "tensor", EmulatedTensors: "emulated tensor",
	}[a]
}

// MarshalText is String, for reports.
func (a Arithmetic) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// kernel returns the file of the kernel, and what it is built with.
func (a Arithmetic) kernel() (file, options string) {
	switch a {
	case Halves, EmulatedHalves:
		return "matmul.cl", fmt.Sprintf(" -DHALF=%d", a)
	case Tensors:
		return "tensor.cl", ""
	case EmulatedTensors:
		return "tensor.cl", " -DEMULATED"
	}
	return "matmul.cl", ""
}

// tolerance bounds what rounding to 11 bits adds to an element's error, see
// Product.Tolerance: of a weight, of the input and, in half precision, of their product on
// devices that round it before they add it, and of each sum within a block.
func (a Arithmetic) tolerance() float64 {
	switch a {
	case Halves, EmulatedHalves:
		return (3 + blockElems) * 0x1p-11
	case Tensors, EmulatedTensors:
		return (2 + 0x1p-10) * 0x1p-11
	}
	return 0
}

// arithmeticOf finds what the environment asks for, as far as the device has it.
func arithmeticOf(name string, info *Info) (Arithmetic, error) {
	best := Floats
	if info.Tensors {
		best = Tensors
	}
	a, err := parseChoice(ArithmeticVariable, name, best, Floats, Halves, Tensors)
	if a == Halves && !info.Half || a == Tensors && !info.Tensors {
		a = best
	}
	return a, err
}

// hasHalf reports whether a device with some extensions computes in half precision as
// Product.Tolerance has it. Some may round toward zero.
func hasHalf(q *query, extensions []string) bool {
	return slices.Contains(extensions, "cl_khr_fp16") && q.number(deviceHalfConfig, 8)&roundToNearest != 0
}

// minTensorGeneration is NVIDIA's first generation whose matrix units take numbers of 11 bits,
// major and minor in one number.
const minTensorGeneration = 80

// hasTensors reports whether a device with some extensions has them.
func hasTensors(q *query, extensions []string) bool {
	return nvidiaGeneration(q, extensions) >= minTensorGeneration
}
