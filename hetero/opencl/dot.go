package opencl

import (
	"slices"
	"strings"
)

// Dot is the device's instruction for the dot product of four pairs of 8-bit codes.
type Dot int

// The instructions, as kernels/common.cl numbers them.
const (
	DotPortable Dot = iota // no known instruction: plain multiplications
	DotKHR                 // the extension cl_khr_integer_dot_product
	DotPTX                 // NVIDIA's, available only in inline assembly
)

// String returns the instruction's name.
func (d Dot) String() string {
	return [...]string{DotPortable: "portable", DotKHR: "cl_khr_integer_dot_product", DotPTX: "dp4a"}[d]
}

// MarshalText returns String, for reports.
func (d Dot) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// options returns the build options of kernels. The extension's functions need a
// later language version than the other kernels.
func (d Dot) options() string {
	if d == DotKHR {
		return "-cl-std=CL3.0 -DDOT=DOT_KHR"
	}
	return "-cl-std=CL1.2 -DDOT=" + [...]string{DotPortable: "DOT_PORTABLE", DotPTX: "DOT_PTX"}[d]
}

// nvidiaQuery is an extension that all NVIDIA drivers have and no others.
const nvidiaQuery = "cl_nv_device_attribute_query"

// minDotGeneration is NVIDIA's first compute capability with dp4a, as 10 × major +
// minor.
const minDotGeneration = 61

// nvidiaGeneration returns the compute capability of an NVIDIA device as 10 × major
// + minor, 0 for other devices.
func nvidiaGeneration(q *query, extensions []string) int64 {
	if !slices.Contains(extensions, nvidiaQuery) {
		return 0
	}
	return 10*q.number(deviceComputeMajor, 4) + q.number(deviceComputeMinor, 4)
}

// dotOf returns the dot product instruction of a device.
func dotOf(q *query, version string, extensions []string) Dot {
	switch {
	case slices.Contains(extensions, "cl_khr_integer_dot_product") && strings.HasPrefix(version, "OpenCL 3"):
		return DotKHR
	case nvidiaGeneration(q, extensions) >= minDotGeneration:
		return DotPTX
	}
	return DotPortable
}
