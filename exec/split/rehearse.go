package split

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/tiering"
)

// fewTokens is the number of tokens of the smallest matmul of several tokens.
const fewTokens = 2

const (
	// sameKernels is how many kernels of a kind are open at once when their memory is measured.
	sameKernels = 3
	// kernelMargin and kernelStep are the margin of that measurement and its granularity. What ONNX Runtime
	// takes for the same kernel differs by up to 200 KiB from process to process.
	kernelMargin, kernelStep = 256 << 10, 256 << 10
)

// rehearse computes matmuls of each kind as planned, with made-up weights, so that the device's driver
// has compiled the kernels and has allocated what it needs for itself. It also measures what a
// kernel takes besides its weights. It allocates less than the model takes.
func (t *trial) rehearse(matmuls []weights.Matmul) (err error) {
	device, err := devices.All.Open(t.o.Device, devices.Options{Budget: tiering.New(0), Memory: t.o.Memory})
	if err != nil {
		return err
	}
	r := &rehearsal{device: device, plan: t.plan}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.allocate(matmuls); err != nil {
		return err
	}
	t.plan.kernelMemory = map[weights.Matmul]int64{}
	changed := false
	for _, matmul := range matmuls {
		for _, op := range t.plan.deviceOps(matmul) {
			taken, err := r.measure(op, matmul.Count)
			if err != nil {
				return err
			}
			bytes, fresh := t.plan.bench.profile.Cover(fmt.Sprintf("a kernel of %d × %d × %d %v: %s", op.Tokens, op.Rows, op.Cols, op.Type, t.plan.bench.keys[otherDevice]), taken, kernelMargin, kernelStep)
			t.plan.kernelMemory[matmulKey(matmul)] += bytes
			changed = changed || fresh
		}
	}
	if changed {
		t.plan.bench.profile.SaveOrReport(t.o.Dir, t.o.Report)
	}
	return nil
}

// rehearsal is an open device with operands.
type rehearsal struct {
	device  hetero.Device
	plan    *planner
	weights *tiering.Frame
	pool    *hetero.BufferPool
	x, y    *hetero.Buffer
}

// allocate allocates operands for the largest matmuls.
func (r *rehearsal) allocate(matmuls []weights.Matmul) (err error) {
	activations, largest := 1, 1
	for _, matmul := range matmuls {
		for _, op := range r.plan.deviceOps(matmul) {
			size, err := op.Type.RowBytes(op.Cols)
			if err != nil {
				return err
			}
			activations, largest = max(activations, op.Tokens*max(op.Rows, op.Cols)), max(largest, op.Rows*size)
		}
	}
	if r.weights, err = tiering.Alloc(tiering.New(0), tiering.Scratch, largest); err != nil {
		return err
	}
	if r.pool, err = hetero.NewBufferPool(tiering.New(0), 2, 4*activations, r.device); err != nil {
		return err
	}
	r.x, r.y = r.pool.Take(), r.pool.Take()
	return nil
}

// close closes the device, and then frees the buffers that are attached to it.
func (r *rehearsal) close() error {
	err := r.device.Close()
	if r.pool != nil {
		r.pool.Close()
	}
	if r.weights != nil {
		r.weights.Free()
	}
	return err
}

// measure returns the memory that a kernel takes in the process besides its weights, of a kind of
// which the model has so many. The first kernel of a kind also makes the driver allocate what all of
// them share. A kernel for which the device has no memory takes none.
func (r *rehearsal) measure(op hetero.Op, count int) (taken int64, err error) {
	size, err := op.Type.RowBytes(op.Cols)
	if err != nil {
		return 0, err
	}
	op.Weights = r.weights.Bytes()[:op.Rows*size]
	var kernels []hetero.Kernel
	defer func() {
		for _, k := range kernels {
			err = errors.Join(err, k.Close())
		}
	}()
	var growth tiering.Growth
	for i := range min(count, sameKernels) {
		if i == 1 {
			devices.ReleaseDriverMemory()
			growth = tiering.BeginGrowth()
		}
		op.Weights[0] = byte(i + 1) // devices may share kernels of equal weights
		k, err := r.device.Prepare(op)
		if hetero.IsOutOfMemory(err) {
			break
		}
		if err != nil {
			return 0, err
		}
		kernels = append(kernels, k)
		if err := compute(k, op.Tokens, hetero.View{Buffer: r.x, Stride: op.Cols}, hetero.View{Buffer: r.y, Stride: op.Rows}); err != nil {
			return 0, err
		}
	}
	if len(kernels) < 2 {
		return 0, nil
	}
	taken, _ = growth.End()
	n := int64(len(kernels) - 1)
	return max(0, taken-n*kernels[0].Bytes()) / n, nil
}

// compute computes a matmul, and with fewer tokens too if the device can.
func compute(k hetero.Kernel, tokens int, x, y hetero.View) error {
	submits := []func() (hetero.Ticket, error){func() (hetero.Ticket, error) { return k.Submit(x, y) }}
	if elastic, ok := k.(hetero.Elastic); ok {
		for _, fewer := range []int{fewTokens, 1} {
			if fewer < tokens {
				submits = append(submits, func() (hetero.Ticket, error) { return elastic.SubmitSome(fewer, x, y) })
			}
		}
	}
	for _, submit := range submits {
		ticket, err := submit()
		if err != nil {
			return err
		}
		if err := ticket.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// deviceOps returns the device's parts of a kind of matmuls.
func (p *planner) deviceOps(matmul weights.Matmul) (ops []hetero.Op) {
	if !matmul.Splittable() || !p.types[matmul.Type] || p.placed(matmul) == 0 {
		return nil
	}
	split := p.splitOf(matmul)
	for _, rows := range split.RowRanges(matmul.Rows) {
		op := opOf(matmul, p.chunk)
		if op.Rows = rows[1] - rows[0]; op.Rows > 0 {
			ops = append(ops, op)
		}
	}
	return ops
}
