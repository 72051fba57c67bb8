//go:build npu

package onnx

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/cpu"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/onnx/graph"
	"github.com/llmrun/llmrun/tiering"
)

// Device is an execution provider of the library.
type Device struct {
	library  *library
	caps     hetero.Capabilities
	provider string
	settings map[string]string
	budget   *tiering.Budget
	cache    *cache // nil: no cache
	queue    *queue

	precision graph.Precision
	inPlace   bool
	wideSums  bool // the CPU sums 8-bit products in 32 bits

	graphs   map[graphKey]*prepared
	weights  map[weightsKey]*packed
	attached map[*hetero.Buffer]bool
	kernels  int
	held     int64
	stats    Stats
	gathered atomic.Int64
	closed   bool
}

// Open opens a device. The error wraps [ErrMissing] if there is no library.
func Open(o Options) (*Device, error) {
	l, err := open(o)
	if err != nil {
		return nil, err
	}
	d := &Device{
		library: l, provider: fullName(o.Provider), settings: o.Settings, budget: o.Budget,
		precision: o.Precision, inPlace: o.InPlace, wideSums: hasWideSums(),
		graphs: map[graphKey]*prepared{}, weights: map[weightsKey]*packed{}, attached: map[*hetero.Buffer]bool{},
	}
	if d.budget == nil {
		d.budget = tiering.New(0)
	}
	d.caps = o.capabilities(l.release)
	// Fail here, not at the first matmul, if the provider is unavailable.
	if err := l.tryProvider(d.provider, d.settings); err != nil {
		return nil, fmt.Errorf("%s: %w", d.caps.Name, err)
	}
	if o.CacheDir != "" {
		if d.cache, err = newCache(o.CacheDir, d); err != nil {
			return nil, err
		}
	}
	d.queue = newQueue(d.run)
	return d, nil
}

// hasWideSums reports whether the CPU has instructions that sum 8-bit products in
// 32 bits. Older CPUs sum pairs in 16 bits, which may overflow.
func hasWideSums() bool {
	return runtime.GOARCH != "amd64" || cpu.X86.HasAVX512VNNI || cpu.X86.HasAVXVNNI
}

// capabilities returns those of the device that Open creates from the options.
func (o *Options) capabilities(release string) hetero.Capabilities {
	provider := fullName(o.Provider)
	// Devices of different speed have different names.
	name := fmt.Sprintf("ONNX Runtime %s, %s, %v", release, provider, o.Precision)
	if threads := max(1, o.Threads); kindOf(provider) == hetero.CPU {
		name += fmt.Sprintf(", threads: %d", threads)
	}
	if o.InPlace {
		name += ", weights in place"
	}
	return hetero.Capabilities{Name: name, Kind: kindOf(provider), Static: true, SharesMemory: true, FixedScale: o.Precision != graph.WeightOnly, Memory: o.Memory}
}

// Capabilities returns the capabilities of the device that Open creates from the
// options with the reported library.
func (r *Report) Capabilities(o Options) hetero.Capabilities { return o.capabilities(r.Version) }

// Capabilities describes the device. SharesMemory means that the library accesses
// buffers in place. A provider with its own memory copies as part of each matmul.
func (d *Device) Capabilities() hetero.Capabilities { return d.caps }

// Clock returns the machine's clock.
func (d *Device) Clock() hetero.Clock { return hetero.Wall() }

// Attach counts the buffer as device memory.
func (d *Device) Attach(b *hetero.Buffer) error {
	if d.closed {
		return errClosed
	}
	if d.attached[b] {
		return nil
	}
	if err := d.reserveMemory(int64(len(b.Bytes()))); err != nil {
		return err
	}
	d.attached[b] = true
	return nil
}

// Flush does nothing: see Capabilities.
func (d *Device) Flush(*hetero.Buffer) error { return nil }

// FlushRows does nothing.
func (d *Device) FlushRows(hetero.View, int, int) error { return nil }

// Fetch does nothing.
func (d *Device) Fetch(*hetero.Buffer) error { return nil }

// reserveMemory counts memory against the limit.
func (d *Device) reserveMemory(bytes int64) error {
	if limit := d.caps.Memory; limit > 0 && d.held+bytes > limit {
		return &hetero.MemoryError{Device: d.caps.Name, Need: bytes, Held: d.held, Limit: limit}
	}
	d.held += bytes
	return nil
}

func (d *Device) releaseMemory(bytes int64) { d.held -= bytes }

// checkView rejects a matrix outside the attached buffers.
func (d *Device) checkView(v hetero.View, rows, cols int) error {
	if v.Buffer == nil || !d.attached[v.Buffer] {
		return fmt.Errorf("%s: buffer is not attached", d.caps.Name)
	}
	if v.Offset < 0 || v.Stride < cols && rows > 1 || v.Offset+(rows-1)*v.Stride+cols > len(v.Buffer.Floats()) {
		return fmt.Errorf("%s: view of %d rows of %d elements at offset %d with stride %d exceeds its buffer of %d", d.caps.Name, rows, cols, v.Offset, v.Stride, len(v.Buffer.Floats()))
	}
	return nil
}

// Stats returns the current counts.
func (d *Device) Stats() Stats {
	s := d.stats
	s.Kernels, s.Graphs = d.kernels, len(d.graphs)
	for _, w := range d.weights {
		s.Weights += w.Bytes()
	}
	s.Held, s.Gathered = d.held, d.gathered.Load()
	return s
}

// Close stops the device and returns the first error of its work. It fails while
// kernels are open.
func (d *Device) Close() error {
	if d.kernels > 0 {
		return fmt.Errorf("onnx: %s: closed while %d kernels are open", d.caps.Name, d.kernels)
	}
	if d.closed {
		return errClosed
	}
	d.closed = true
	return d.queue.close()
}
