package opencl

import (
	"fmt"
	"math"
	"unsafe"
)

// Source selects how kernels read the codes of weights. The bytes are the same.
type Source int

// The values of Source. Many GPUs read images through separate caches, and some mobile ones
// read them faster than buffers.
const (
	Buffers Source = iota
	Images         // one row of 128-bit pixels over the buffer
)

// WeightsVariable is the environment variable that selects how kernels read codes:
// "buffers" (the default) or "images".
const WeightsVariable = "LLMRUN_OPENCL_WEIGHTS"

// String returns the name.
func (s Source) String() string { return [...]string{Buffers: "buffers", Images: "images"}[s] }

// MarshalText returns String, for reports.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// options returns the build options of kernels.
func (s Source) options() string { return [...]string{Buffers: "", Images: " -DIMAGE"}[s] }

// sourceOf returns the value that the environment selects.
func sourceOf(name string) (Source, error) {
	return parseChoice(WeightsVariable, name, Buffers, Buffers, Images)
}

// Image is a one-row image over the beginning of a buffer, for kernels to read.
type Image struct {
	context *Context
	handle  uintptr
}

// imageFormat and imageDescription are OpenCL's structs cl_image_format and
// cl_image_desc.
type imageFormat struct{ order, kind uint32 }

type imageDescription struct {
	kind                                               uint32
	width, height, depth, layers, rowPitch, slicePitch uintptr
	levels, samples                                    uint32
	buffer                                             uintptr
}

// newImage creates an image of the given number of units. Free it before the buffer.
func (m *Memory) newImage(units int) (*Image, error) {
	c := m.context
	format := imageFormat{order: imageRGBA, kind: imageUint32}
	description := imageDescription{kind: imageOfBuffer, width: uintptr(units), buffer: m.handle}
	handle := call(functions[clCreateImage], c.context, memReadOnly,
		uintptr(unsafe.Pointer(&format)), uintptr(unsafe.Pointer(&description)), 0, uintptr(unsafe.Pointer(&c.code)))
	if err := c.created(clCreateImage); err != nil {
		return nil, fmt.Errorf("image of %d units: %w", units, err)
	}
	c.memories++
	c.stats.Images++
	return &Image{c, handle}, nil
}

// newCodesImage returns an image over a matrix's codes. It returns nil if images are
// not selected, the matrix is too large or the driver rejects the image; kernels then
// read the buffer.
func (c *Context) newCodesImage(weights *Memory, m *matrixLayout) (*Image, error) {
	units := m.codeBytes() / unitBytes
	if c.Weights != Images || int64(units) > min(c.Info.ImageUnits, math.MaxInt32) {
		return nil, nil
	}
	t, err := weights.newImage(units)
	return t, ignoreDriverError(err)
}

// Free releases the image. No pending command may use it.
func (t *Image) Free() error {
	if t == nil || t.handle == 0 {
		return nil
	}
	err := status(clReleaseMemObject, t.handle)
	t.handle = 0
	t.context.memories--
	t.context.stats.Images--
	return err
}
