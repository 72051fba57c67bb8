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

// kernel is a product for a number of tokens.
type kernel struct {
	device  *Device
	op      hetero.Op
	weights *weights
	closed  bool
}

// weightsKey names weights: the same bytes are arranged once, for however many
// numbers of tokens products are prepared. They are known by their place, and those
// in tiles by a sum of their bytes besides, because the caller's memory may hold
// others by the time of the next Prepare.
type weightsKey struct {
	hash       uint64
	first      *byte
	typ        quant.Type
	rows, cols int
}

// weights are those of a product: in tiles, in memory of the device, or as they
// are in the caller's.
type weights struct {
	key   weightsKey
	users int
	frame *tiering.Frame // nil: the type has no tiles
	data  []byte
}

// Prepare arranges the weights in tiles. Of types that have none the caller's
// bytes are used as they are.
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

// check refuses products that make no sense.
func check(op hetero.Op) error {
	if op.Tokens < 1 || op.Rows < 1 || op.Cols < 1 {
		return fmt.Errorf("cpu: a product of %d × %d × %d", op.Tokens, op.Rows, op.Cols)
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

// acquireWeights returns the weights of a product as the device multiplies them.
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

// usesTiles reports whether a product is done in integers.
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

// release gives the weights up for one of their users.
func (w *weights) release(d *Device) {
	if w.users--; w.users > 0 {
		return
	}
	delete(d.weights, w.key)
	if w.frame != nil {
		w.frame.Free()
	}
}

// Bytes counts weights that several kernels share for each of them.
func (k *kernel) Bytes() int64 {
	if k.weights.frame == nil {
		return 0
	}
	return int64(len(k.weights.data))
}

// Submit puts the product into the device's queue.
func (k *kernel) Submit(x, y hetero.View) (hetero.Ticket, error) {
	return k.device.submit(k, k.op.Tokens, x, y)
}

// SubmitSome puts the product with fewer tokens there.
func (k *kernel) SubmitSome(tokens int, x, y hetero.View) (hetero.Ticket, error) {
	return k.device.submit(k, tokens, x, y)
}

// Close gives the weights up, once nothing is computed with them.
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

// Tolerance is that of the kernel's arithmetic. With tiles, activations are
// rounded by at most half of 1/127 of the largest of their group. Sums of float32
// add a last bit for each of their steps; weights with an offset are computed
// from two numbers that may be some times larger than they are.
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
	offsets = 8  // two roundings a group, of numbers four times as large
)
