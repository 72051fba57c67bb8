//go:build npu

package onnx

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/onnx/graph"
	"github.com/llmrun/llmrun/tiering"
)

// weightsKey identifies packed weights by content: matmuls with equal weights share
// one copy.
type weightsKey struct {
	sum       [sha256.Size]byte
	precision graph.Precision
	streamed  bool
}

// graphKey identifies a graph. All chunks of a prompt share one.
type graphKey struct {
	weights weightsKey
	tokens  int
	scale   float32
}

// packed are weights that graphs of several lengths share.
type packed struct {
	*graph.Weights
	users int
}

// prepared is a session with its memory, shared by kernels.
type prepared struct {
	key       graphKey
	session   *session
	packed    *packed        // read by the session in place; nil if the session holds the weights
	copied    *tiering.Lease // for the library's own copy
	bytes     int64          // of both
	tolerance float64
	users     int
}

// keyOf returns the key of a matmul's graph and clears what does not affect it.
func (d *Device) keyOf(op *hetero.Op) (graphKey, error) {
	precision, err := d.precision.Resolve(op.Type)
	if err != nil {
		return graphKey{}, err
	}
	if precision == graph.WeightOnly {
		op.Streamed, op.Scale = false, 0
	}
	op.Streamed = op.Streamed && (d.wideSums || d.provider != cpuProvider)
	key := graphKey{weightsKey{precision: precision, streamed: op.Streamed}, op.Tokens, op.Scale}
	h := sha256.New()
	var shape []byte
	for _, v := range []int{int(op.Type), op.Rows, op.Cols} {
		shape = binary.LittleEndian.AppendUint64(shape, uint64(v))
	}
	h.Write(shape)
	h.Write(op.Weights)
	h.Sum(key.weights.sum[:0])
	return key, nil
}

// Prepare returns a kernel for a new or existing graph of the matmul.
func (d *Device) Prepare(op hetero.Op) (hetero.Kernel, error) {
	if d.closed {
		return nil, errClosed
	}
	size, err := graph.Size(op, d.precision)
	if err != nil {
		return nil, err
	}
	key, err := d.keyOf(&op)
	if err != nil {
		return nil, err
	}
	g := d.graphs[key]
	if g == nil {
		if g, err = d.build(key, op, size); err != nil {
			return nil, err
		}
		d.graphs[key] = g
		d.stats.Built++
	}
	g.users++
	d.kernels++
	return newKernel(d, op, g), nil
}

// build loads a graph from the cache or prepares a new one.
func (d *Device) build(key graphKey, op hetero.Op, size int64) (g *prepared, err error) {
	g = &prepared{key: key}
	defer func() {
		if err != nil {
			d.freeGraph(g)
		}
	}()
	if copied := d.libraryCopyBytes(key, size); copied > 0 {
		if err := d.reserveMemory(copied); err != nil {
			return g, err
		}
		g.bytes = copied
		if g.copied, err = d.budget.Reserve(tiering.Pinned, copied); err != nil {
			return g, err
		}
	}
	if d.cache != nil && d.loadCached(g, op) {
		d.stats.Cached++
		return g, nil
	}
	if g.packed, err = d.pack(key.weights, op, size); err != nil {
		return g, err
	}
	g.bytes += g.packed.Bytes()
	g.tolerance = d.tolerance(op, key, g.packed.QuantError)
	file := graph.Matmul(op, g.packed.Weights)
	if d.cache == nil {
		g.session, err = d.library.newSession(file, g.packed.Tensors, d.sessionOptions())
		return g, err
	}
	stored, err := d.cache.store(d.cache.name(key), g.packed.QuantError, func(path string) (err error) {
		o := d.sessionOptions()
		o.saveTo = path
		g.session, err = d.library.newSession(file, g.packed.Tensors, o)
		return err
	})
	if err == nil && !stored {
		d.stats.Unsaved++
	}
	return g, err
}

// libraryCopyBytes returns the bytes of weights that the library copies: into the
// layout of its kernels, into a provider's compiled graph, or from a cached graph.
// The library does not report this. The CPU provider reads only left operands in
// place.
func (d *Device) libraryCopyBytes(key graphKey, size int64) int64 {
	if d.provider == cpuProvider && d.cache == nil && (d.inPlace || key.weights.streamed) {
		return 0
	}
	return size
}

// loadCached creates the session from the cache and reports success. Damaged or
// rejected entries are rebuilt.
func (d *Device) loadCached(g *prepared, op hetero.Op) bool {
	entry, err := d.cache.load(d.cache.name(g.key), d.budget)
	if err != nil || entry == nil {
		if err != nil {
			d.stats.Damaged++
		}
		return false
	}
	defer entry.free()
	o := d.sessionOptions()
	o.prepared = true
	if g.session, err = d.library.newSession(entry.file, nil, o); err != nil {
		d.stats.Damaged++
		return false
	}
	g.tolerance = d.tolerance(op, g.key, entry.quantError)
	return true
}

func (d *Device) sessionOptions() sessionOptions {
	return sessionOptions{provider: d.provider, settings: d.settings, inPlace: d.inPlace, narrowSums: !d.wideSums}
}

// halfError is the assumed float16 error of providers other than the CPU's: one
// rounding each of the activations, the scales and the result.
const halfError = 3 * 0x1p-11

func (d *Device) tolerance(op hetero.Op, key graphKey, rounding float64) float64 {
	t := graph.Tolerance(op, key.weights.precision, rounding)
	if d.provider != cpuProvider {
		t += halfError
	}
	return t
}

// pack returns the weights of a matmul in the graph's layout.
func (d *Device) pack(key weightsKey, op hetero.Op, size int64) (*packed, error) {
	p := d.weights[key]
	if p == nil {
		if err := d.reserveMemory(size); err != nil {
			return nil, err
		}
		w, err := graph.Pack(d.budget, op, key.precision)
		if err != nil {
			d.releaseMemory(size)
			return nil, err
		}
		p = &packed{Weights: w}
		d.weights[key] = p
	}
	p.users++
	return p, nil
}

// releaseGraph drops one user of a graph.
func (d *Device) releaseGraph(g *prepared) {
	if g.users--; g.users == 0 {
		delete(d.graphs, g.key)
		d.freeGraph(g)
	}
}

// freeGraph frees a graph, which may be incomplete.
func (d *Device) freeGraph(g *prepared) {
	if g.session != nil {
		g.session.close()
	}
	if p := g.packed; p != nil {
		g.bytes -= p.Bytes()
		if p.users--; p.users == 0 {
			delete(d.weights, g.key.weights)
			d.releaseMemory(p.Bytes())
			p.Free()
		}
	}
	if g.copied != nil {
		g.copied.Release()
	}
	d.releaseMemory(g.bytes)
}
