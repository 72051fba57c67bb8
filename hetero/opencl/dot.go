package opencl

import (
	"slices"
	"strings"
)

// Dot is the instruction that a device multiplies codes of 8 bits with, four pairs
// at a time.
type Dot int

// The instructions, as kernels/common.cl numbers them.
const (
	DotPortable Dot = iota // none that is known
	DotKHR                 // that of the extension cl_khr_integer_dot_product
	DotPTX                 // NVIDIA's, which its driver knows by the name in its assembly only
)

// String names the instruction, or says that there is none.
func (d Dot) String() string {
	return [...]string{DotPortable: "portable", DotKHR: "cl_khr_integer_dot_product", DotPTX: "dp4a"}[d]
}

// MarshalText is String, for reports.
func (d Dot) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// options returns what kernels are built with. The extension's functions are part of
// a later language than the other kernels need.
func (d Dot) options() string {
	if d == DotKHR {
		return "-cl-std=CL3.0 -DDOT=DOT_KHR"
	}
	return "-cl-std=CL1.2 -DDOT=" + [...]string{DotPortable: "DOT_PORTABLE", DotPTX: "DOT_PTX"}[d]
}

// nvidiaQuery is an extension that all of NVIDIA's drivers have and no others.
const nvidiaQuery = "cl_nv_device_attribute_query"

// minDotGeneration is NVIDIA's first generation that has the instruction, major and minor in
// one number.
const minDotGeneration = 61

// nvidiaGeneration returns the generation of a device with some extensions; 0 if it is
// none of NVIDIA's.
func nvidiaGeneration(q *query, extensions []string) int64 {
	if !slices.Contains(extensions, nvidiaQuery) {
		return 0
	}
	return 10*q.number(deviceComputeMajor, 4) + q.number(deviceComputeMinor, 4)
}

// dotOf finds the instruction of a device with some extensions.
func dotOf(q *query, version string, extensions []string) Dot {
	switch {
	case slices.Contains(extensions, "cl_khr_integer_dot_product") && strings.HasPrefix(version, "OpenCL 3"):
		return DotKHR
	case nvidiaGeneration(q, extensions) >= minDotGeneration:
		return DotPTX
	}
	return DotPortable
}
