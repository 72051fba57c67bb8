package cpu

import (
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

var errKernelClosed = errors.New("cpu: the kernel is closed")

// kernel is a prepared matmul for up to op.Tokens tokens.
type kernel struct {
	device  *Device
	op      hetero.Op
	weights *weights
	closed  bool
}

// weightsKey identifies weights, so that kernels for different numbers of tokens
// share one packed copy. The key is the address, and for tiles also a hash of the
// bytes, because the caller's memory may hold other weights at the next Prepare.
type weightsKey struct {
	hash       uint64
	first      *byte
	typ        quant.Type
	rows, cols int
}

// weights are the weights of a matmul: tiles in the device's memory, or rows in the
// caller's memory.
type weights struct {
	key   weightsKey // nil: the type has no tiles
	users int
	frame *tiering.Frame // nil: the type has no tiles
	data  []byte
}

// Prepare packs the weights into tiles. Types without tiles use the caller's bytes
// in place.
func (d *Device) Prepare(op hetero.Op) (hetero.Kernel, error) {
	if err := check(op); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	d.waitIdle()
	w, err := d.acquireWeights(op)
	if err != nil {
		return nil, err
	}
	if err := d.reserve(op); err != nil {
		w.release(d)
		return nil, err
	}
	d.kernels++
	return &kernel{device: d, op: op, weights: w}, nil
}

// check rejects invalid shapes.
func check(op hetero.Op) error {
	if op.Tokens < 1 || op.Rows < 1 || op.Cols < 1 {
		return fmt.Errorf("cpu: invalid matmul of %d × %d × %d", op.Tokens, op.Rows, op.Cols)
	}
	rowBytes, err := op.Type.RowBytes(op.Cols)
	if err != nil {
		return err
	}
	if len(op.Weights) != op.Rows*rowBytes {
		return fmt.Errorf("cpu: %d bytes of weights for %d rows of %d", len(op.Weights), op.Rows, rowBytes)
	}
	return nil
}

// acquireWeights returns the weights of a matmul in the device's layout and counts
// a user.
func (d *Device) acquireWeights(op hetero.Op) (*weights, error) {
	key := weightsKey{first: &op.Weights[0], typ: op.Type, rows: op.Rows, cols: op.Cols}
	if usesTiles(op) {
		key.hash = maphash.Bytes(d.seed, op.Weights)
	}
	if w := d.weights[key]; w != nil {
		w.users++
		return w, nil
	}
	w := &weights{key: key, users: 1, data: op.Weights}
	if usesTiles(op) {
		n, err := tiled.Bytes(op.Type, op.Rows, op.Cols)
		if err != nil {
			return nil, err
		}
		if w.frame, err = tiering.Alloc(d.budget, tiering.Pinned, n); err != nil {
			return nil, err
		}
		w.data = w.frame.Bytes()[:n]
		d.packTiles(op, w.data)
	}
	d.weights[key] = w
	return w, nil
}

// usesTiles reports whether a matmul runs in integers on tiles.
func usesTiles(op hetero.Op) bool {
	return tiled.Fits(op.Type, op.Cols)
}

// packTiles packs the weights with all workers.
func (d *Device) packTiles(op hetero.Op, dst []byte) {
	tiles := (op.Rows + tiled.TileRows - 1) / tiled.TileRows
	tileBytes, rowBytes := len(dst)/tiles, len(op.Weights)/op.Rows
	parts := min(tiles, 8*d.workers.Count())
	d.workers.Run(parts, func(part, _ int) {
		lo, hi := threadpool.Span(tiles, parts, part)
		first, last := lo*tiled.TileRows, min(hi*tiled.TileRows, op.Rows)
		tiled.Pack(dst[lo*tileBytes:hi*tileBytes], op.Type, op.Weights[first*rowBytes:last*rowBytes], last-first, op.Cols)
	})
}

// release drops one user of the weights and frees them after the last.
func (w *weights) release(d *Device) {
	if w.users--; w.users > 0 {
		return
	}
	delete(d.weights, w.key)
	if w.frame != nil {
		w.frame.Free()
	}
}

// Bytes counts weights that several kernels share once per kernel.
func (k *kernel) Bytes() int64 {
	if k.weights.frame == nil {
		return 0
	}
	return int64(len(k.weights.data))
}

// Submit queues the matmul.
func (k *kernel) Submit(x, y hetero.View) (hetero.Ticket, error) {
	return k.device.submit(k, k.op.Tokens, x, y)
}

// SubmitSome queues the matmul with fewer tokens.
func (k *kernel) SubmitSome(tokens int, x, y hetero.View) (hetero.Ticket, error) {
	return k.device.submit(k, tokens, x, y)
}

// Close waits for the queue and releases the weights.
func (k *kernel) Close() error {
	d := k.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if k.closed {
		return errKernelClosed
	}
	d.waitIdle()
	k.closed = true
	d.kernels--
	k.weights.release(d)
	return nil
}

// Tolerance bounds the error of the kernel's arithmetic. With tiles, quantizing an
// activation changes it by at most half of 1/127 of the largest of its group.
// Float32 sums add one last bit per step. Weights with an offset are the difference
// of two numbers that may be several times larger.
func (k *kernel) Tolerance() float64 {
	if !usesTiles(k.op) {
		steps := k.op.Cols/lanes + 8 // and the tree that adds the lanes
		return float64(steps) * 0x1p-24
	}
	groups := k.op.Cols / tiled.GroupElems
	return 0.5/127*(1+0x1p-13) + float64(groups+4)*offsets*0x1p-24
}

const (
	lanes   = 16 // of quant.Dot
	offsets = 8  // two roundings per group, of numbers four times as large
)
