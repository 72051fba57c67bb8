package opencl

import (
	"fmt"
	"math"
	"unsafe"
)

// Source is how products read the codes of weights. Their bytes are the same.
type Source int

// The ways. Many GPUs read images through caches of their own, and some mobile ones
// read them faster than buffers.
const (
	Buffers Source = iota
	Images         // one row of pixels of 128 bits, over the buffer
)

// WeightsVariable is the environment variable that says how products read codes, by
// the names that String gives: "buffers", which they do without it, or "images".
const WeightsVariable = "LLMRUN_OPENCL_WEIGHTS"

// String names the way.
func (s Source) String() string { return [...]string{Buffers: "buffers", Images: "images"}[s] }

// MarshalText is String, for reports.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// options returns what kernels are built with.
func (s Source) options() string { return [...]string{Buffers: "", Images: " -DIMAGE"}[s] }

// sourceOf finds the way that the environment asks for.
func sourceOf(name string) (Source, error) {
	return parseChoice(WeightsVariable, name, Buffers, Buffers, Images)
}

// Image is the beginning of a buffer as an image of one row, which kernels read.
type Image struct {
	context *Context
	handle  uintptr
}

// imageFormat and imageDescription are OpenCL's structures of these names.
type imageFormat struct{ order, kind uint32 }

type imageDescription struct {
	kind                                               uint32
	width, height, depth, layers, rowPitch, slicePitch uintptr
	levels, samples                                    uint32
	buffer                                             uintptr
}

// newImage makes an image of so many units, which must be freed before the buffer.
func (m *Memory) newImage(units int) (*Image, error) {
	c := m.context
	format := imageFormat{order: imageRGBA, kind: imageUint32}
	description := imageDescription{kind: imageOfBuffer, width: uintptr(units), buffer: m.handle}
	handle := call(functions[clCreateImage], c.context, memReadOnly,
		uintptr(unsafe.Pointer(&format)), uintptr(unsafe.Pointer(&description)), 0, uintptr(unsafe.Pointer(&c.code)))
	if err := c.created(clCreateImage); err != nil {
		return nil, fmt.Errorf("an image of %d units: %w", units, err)
	}
	c.memories++
	c.stats.Images++
	return &Image{c, handle}, nil
}

// newCodesImage makes what products read the codes of a matrix through if that is an image:
// nil where they read the buffer, because nobody wants images, the matrix is too
// large for one, or the driver refuses it.
func (c *Context) newCodesImage(weights *Memory, m *matrixLayout) (*Image, error) {
	units := m.codeBytes() / unitBytes
	if c.Weights != Images || int64(units) > min(c.Info.ImageUnits, math.MaxInt32) {
		return nil, nil
	}
	t, err := weights.newImage(units)
	return t, ignoreDriverError(err)
}

// Free gives the image back. Nothing that uses it may be under way.
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
