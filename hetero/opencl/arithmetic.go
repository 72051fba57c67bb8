package opencl

import (
	"fmt"
	"slices"
)

// Arithmetic is the number format of matmuls with many tokens.
type Arithmetic int

// The values. kernels/common.cl has the same numbers for half precision.
const (
	Floats Arithmetic = iota
	// Halves converts weights and inputs to half precision, multiplies and adds
	// them in half precision within a block of 32 columns, and adds blocks in
	// float. Numbers beyond 65504 overflow.
	Halves
	// EmulatedHalves computes Halves in float and rounds after each step, for tests
	// on devices without half precision.
	EmulatedHalves
	// Tensors rounds weights and inputs to tf32: 11 significant bits with the range
	// of floats. NVIDIA's tensor cores multiply these and add in float, many times
	// as fast as float units.
	Tensors
	// EmulatedTensors computes Tensors in float, for tests on other devices.
	EmulatedTensors
)

// ArithmeticVariable is the environment variable that selects the arithmetic of
// matmuls with many tokens: "float", "half" or "tensor". If it is unset, or the
// device lacks the selected arithmetic, devices with tensor cores use "tensor" and
// others "float".
const ArithmeticVariable = "LLMRUN_OPENCL_ARITHMETIC"

// String returns the name for reports.
func (a Arithmetic) String() string {
	return [...]string{
		Floats: "float", Halves: "half", EmulatedHalves: "emulated half", Tensors: "tensor", EmulatedTensors: "emulated tensor",
	}[a]
}

// MarshalText returns String, for reports.
func (a Arithmetic) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// kernel returns the kernel's source file and build options.
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

// tolerance bounds the error that rounding to 11 bits adds to an element of the
// result, see WeightMatrix.Tolerance. The kernels round weights and inputs. In half
// precision, devices may also round each product and each sum within a block.
func (a Arithmetic) tolerance() float64 {
	switch a {
	case Halves, EmulatedHalves:
		return (3 + blockElems) * 0x1p-11
	case Tensors, EmulatedTensors:
		return (2 + 0x1p-10) * 0x1p-11
	}
	return 0
}

// arithmeticOf returns the arithmetic that the environment selects, if the device
// supports it.
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

// hasHalf reports whether a device rounds half precision to nearest, as
// WeightMatrix.Tolerance assumes. Some devices round toward zero.
func hasHalf(q *query, extensions []string) bool {
	return slices.Contains(extensions, "cl_khr_fp16") && q.number(deviceHalfConfig, 8)&roundToNearest != 0
}

// minTensorGeneration is NVIDIA's first compute capability with tf32 tensor cores,
// as 10 × major + minor.
const minTensorGeneration = 80

// hasTensors reports whether a device has tf32 tensor cores.
func hasTensors(q *query, extensions []string) bool {
	return nvidiaGeneration(q, extensions) >= minTensorGeneration
}
