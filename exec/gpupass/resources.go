package gpupass

import (
	"errors"

	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/tiering"
)

// resources are what a network allocates on a device.
type resources struct {
	device *opencl.Context
	owned  []closer // memory, matrices and kernels, in order of creation
}

// own registers a resource for Close.
func (r *resources) own(c closer) { r.owned = append(r.owned, c) }

// alloc allocates a buffer that lives as long as the network.
func (r *resources) alloc(purpose tiering.Purpose, size int) (*opencl.Memory, error) {
	m, err := r.device.Alloc(purpose, size)
	if err == nil {
		r.own(memoryCloser{m})
	}
	return m, err
}

// releaseFrom frees the resources registered since mark.
func (r *resources) releaseFrom(mark int) error {
	var err error
	for i := len(r.owned) - 1; i >= mark; i-- {
		err = errors.Join(err, r.owned[i].Close())
	}
	r.owned = r.owned[:mark]
	return err
}

// hostView returns the host's view of part of a buffer: in place where memory is
// shared, otherwise a staging buffer to copy.
func (r *resources) hostView(m *opencl.Memory, at, count int) (stage *opencl.Memory, numbers []float32, err error) {
	if m.Host() != nil {
		return nil, hostFloats(m)[at:][:count], nil
	}
	if stage, err = r.device.Stage(tiering.Scratch, 4*count); err != nil {
		return nil, nil, err
	}
	r.own(memoryCloser{stage})
	return stage, hostFloats(stage)[:count], nil
}

// closer is a resource of the network.
type closer interface{ Close() error }

// memoryCloser adapts memory to closer.
type memoryCloser struct{ *opencl.Memory }

func (f memoryCloser) Close() error { return f.Free() }
