package gpupass

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/opencl"
)

// A device whose memory does not hold the model computes its last layers. Then the
// output matrix, all of which each token reads, is in the faster memory, and the
// residual stream takes the place of embedding rows as the device's input.

// All as Accelerator.Layers requires every layer of the model on the device.
const All = math.MaxInt

const (
	// minContext is the context to reserve memory for if the caller sets none. The
	// context becomes longer if that leaves the same number of layers.
	minContext = 4096
	// 1/spareFraction of the device memory is left to the driver, kernels and other
	// programs, unless the caller sets the number of layers. Drivers do not report free
	// memory; the number is a guess.
	spareFraction = 16
)

// layerBytes is the device memory of a layer.
type layerBytes struct {
	weights  int64
	maxPiece int64 // largest single allocation of the weights
	token    int64 // KV of one token
}

// memoryPlan compares a device's memory with the model's needs.
type memoryPlan struct {
	memory, maxBuffer int64 // bytes in all, and in one buffer
	// fixed is needed with any number of layers; maxPiece is its largest single
	// allocation.
	fixed, maxPiece int64
	layers          []layerBytes
}

// planMemory computes the needs of a model. The buffers for one token are already
// allocated.
func (n *Network) planMemory(o *exec.Offer) *memoryPlan {
	info := &n.context.Info
	f := &memoryPlan{memory: info.Memory, maxBuffer: info.MaxAllocation, fixed: n.context.Stats().Held + gatherAlign}
	add := func(bytes int) { f.fixed, f.maxPiece = f.fixed+int64(bytes), max(f.maxPiece, int64(bytes)) }
	inner := 0
	for i, w := range o.Layers {
		inner = max(inner, w.Down.Cols)
		f.layers = append(f.layers, layerBytesOf(w, int64(n.tokenBytes(i))))
	}
	batch := n.batchFloats(o.Chunk, inner)
	for _, floats := range batch {
		add(4 * floats)
	}
	if !n.context.SharesMemory {
		f.fixed += 4 * int64(batch[0]) // the host's copy of the input
	}
	if 2*inner > n.single.innerCapacity {
		add(8 * inner) // the MLP of one token
	}
	add(int(gatheredBytes(opencl.SizeOf(weightsOf(&o.Head)))))
	return f
}

func layerBytesOf(w *exec.LayerWeights, token int64) layerBytes {
	l := layerBytes{token: token}
	for _, s := range slices.Concat(stackable(&w.Q, &w.K, &w.V), stackable(&w.O), stackable(&w.Gate, &w.Up), stackable(&w.Down)) {
		bytes := gatheredBytes(opencl.SizeOf(allWeights(s)...))
		l.weights, l.maxPiece = l.weights+bytes, max(l.maxPiece, bytes)
	}
	return l
}

// total returns the memory of the layers from first on, with a sequence of a number of
// tokens, and the largest single allocation.
func (f *memoryPlan) total(first, tokens int) (bytes, piece int64) {
	bytes, piece = f.fixed, f.maxPiece
	room, most := 0, 0
	for room < tokens {
		before := room
		room = grownCapacity(room, room+1, tokens)
		most = before + room // old and new KV exist until the copy is done
	}
	for _, l := range f.layers[first:] {
		bytes += l.weights + int64(most)*l.token
		piece = max(piece, l.maxPiece, int64(room)*l.token)
	}
	return bytes, piece
}

func (f *memoryPlan) fits(first, tokens int) bool {
	bytes, piece := f.total(first, tokens)
	return bytes <= f.memory && piece <= f.maxBuffer
}

// first returns the first of the last layers that fit, at most want of them.
func (f *memoryPlan) first(want, tokens int) int {
	first := len(f.layers)
	for first > 0 && len(f.layers)-first < want && f.fits(first-1, tokens) {
		first--
	}
	return first
}

// longest returns the longest context that fits, up to most; tokens is known to
// fit.
func (f *memoryPlan) longest(first, tokens, most int) int {
	if f.fits(first, most) {
		return most
	}
	return tokens + blockTokens*sort.Search((most-tokens)/blockTokens, func(i int) bool {
		return !f.fits(first, tokens+(i+1)*blockTokens)
	})
}

// placeLayers decides which layers the device computes and how long sequences can
// be: want layers, or as many as fit if want is 0. No layer is allocated yet.
func (n *Network) placeLayers(o *exec.Offer, want int) error {
	f, tokens := n.planMemory(o), o.Context
	if tokens == 0 {
		tokens = min(minContext, o.Spec.Context)
	}
	all := len(f.layers)
	least := min(want, all)
	if want == 0 {
		f.memory -= f.memory / spareFraction
		want, least = all, 1
	}
	first := f.first(want, tokens)
	if all-first < least {
		return n.notEnoughMemory(f, first, all-least, tokens)
	}
	if o.Context == 0 {
		tokens = f.longest(first, tokens, o.Spec.Context)
	}
	n.needed, _ = f.total(first, tokens)
	n.host = n.hostMemory(f, first, o)
	spec := *o.Spec
	spec.Layers, spec.Context = spec.Layers[first:], tokens
	n.spec, n.first, n.layers = &spec, first, make([]layer, len(spec.Layers))
	return nil
}

// notEnoughMemory returns the error for the layers from wanted on; those from
// fitting on would fit.
func (n *Network) notEnoughMemory(f *memoryPlan, fitting, wanted, tokens int) error {
	bytes, piece := f.total(wanted, tokens)
	held := n.context.Stats().Held
	short := &hetero.MemoryError{Device: n.context.Info.Name, Need: bytes - held, Held: held, Limit: f.memory}
	what := ""
	if piece > f.maxBuffer {
		short.Need, short.Held, short.Limit = piece, 0, f.maxBuffer
		what = " in one buffer"
	}
	all := len(f.layers)
	advice := "use a shorter context or smaller chunks, or run on the CPU"
	if fitting < all {
		advice = fmt.Sprintf("%d layers fit, more with a shorter context", all-fitting)
	}
	return fmt.Errorf("the last %d of %d layers, the output matrix, activations, and keys and values of %d tokens%s: %w; %s",
		all-wanted, all, tokens, what, short, advice)
}

// Placement reports which layers the network holds. See exec.Network.
func (n *Network) Placement() exec.Placement {
	return exec.Placement{
		Device: n.context.Info.Name, First: n.first, Layers: n.first + len(n.layers),
		Context: n.spec.Context, Held: n.context.Stats().Held, Need: n.needed, Memory: n.context.Info.Memory,
		SharesMemory: n.context.SharesMemory, HostBuffers: n.host.buffers, HostKVPerToken: n.host.token, HostUpload: n.host.upload,
	}
}
